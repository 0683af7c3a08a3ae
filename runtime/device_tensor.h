#pragma once

// What a TensorHandle holds, and LibTorch's names for ours. Only for files of runtime/ that use LibTorch.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>

#include "runtime/executor.h"

namespace motley {

class DeviceTensor {
 public:
  explicit DeviceTensor(at::Tensor tensor) : value(std::move(tensor)) {}
  at::Tensor value;
};
inline TensorHandle make_handle(at::Tensor tensor) { return std::make_shared<DeviceTensor>(std::move(tensor)); }

c10::ScalarType scalar_type(DType dtype);
DType dtype_of(c10::ScalarType type);  // throws Error(kUnsupported) for those that motley has no name for

// "cpu", "cuda:1"; "cuda" is its device 0. Throws Error(kNotFound) when it is not there, naming what is.
c10::Device parse_device(const std::string& name);

bool share_storage(const at::Tensor& a, const at::Tensor& b);

}  // namespace motley
