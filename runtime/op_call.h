#pragma once

// A forward op as a call through LibTorch's dispatcher: the operator and a stack of arguments with places for tensors.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/executor.h"

namespace motley {

// "op 'NAME' (model.py:42 in forward)", as messages begin.
std::string describe(const Op& op);

// The operator behind Op::target. Throws Error(kUnsupported) naming the op when this LibTorch has none.
c10::OperatorHandle find_operator(const Op& op);

class OpCall {
 public:
  // Throws Error(kUnsupported) naming the op and the argument that does not fit the operator's schema.
  OpCall(const Op& op, const c10::OperatorHandle& handle, std::int64_t batch, c10::Device device);

  // Runs the op under the thread's present autograd mode; returns its tensors in the order of Op::outputs.
  std::vector<at::Tensor> operator()(std::span<const at::Tensor> inputs) const;

  bool depends_on_batch() const { return depends_on_batch_; }

 private:
  struct TensorPlace {
    std::size_t argument;
    std::int32_t input;
  };
  struct ListPlace {
    std::size_t argument;
    std::vector<std::int32_t> inputs;
    bool optional;  // elements may be None (index)
  };

  c10::IValue constant(const c10::TypePtr& type, const ArgumentValue& value, std::int64_t batch,
                       c10::Device device) const;

  c10::OperatorHandle handle_;
  torch::jit::Stack stack_;  // tensors not filled in
  std::vector<TensorPlace> tensors_;
  std::vector<ListPlace> lists_;
  bool depends_on_batch_ = false;
};

}  // namespace motley
