#include "runtime/device_tensor.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace motley {
namespace {

// CUDA's kernels take half a second and half a gigabyte to load, which a process without a GPU need not spend.
// LibTorch's registries know them from then on; without the library there are no such devices, and that is told below.
void load_kernels(c10::DeviceType type) {
  if (type == c10::DeviceType::CUDA && !c10::impl::hasDeviceGuardImpl(type)) {
    static_cast<void>(dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL));
  }
}

constexpr std::array<std::pair<DType, c10::ScalarType>, 10> kTypes = {{
    {DType::kFloat32, c10::ScalarType::Float},
    {DType::kFloat16, c10::ScalarType::Half},
    {DType::kBFloat16, c10::ScalarType::BFloat16},
    {DType::kFloat64, c10::ScalarType::Double},
    {DType::kInt64, c10::ScalarType::Long},
    {DType::kInt32, c10::ScalarType::Int},
    {DType::kInt16, c10::ScalarType::Short},
    {DType::kInt8, c10::ScalarType::Char},
    {DType::kUInt8, c10::ScalarType::Byte},
    {DType::kBool, c10::ScalarType::Bool},
}};

}  // namespace

c10::ScalarType scalar_type(DType dtype) { return kTypes.at(static_cast<std::size_t>(dtype)).second; }

DType dtype_of(c10::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw Error(ErrorKind::kUnsupported,
              std::string("tensors of type ") + c10::toString(type) + " are not supported; convert them in the model");
}

c10::Device parse_device(const std::string& name) {
  std::optional<c10::Device> device;
  try {
    device = c10::Device(name);
  } catch (const c10::Error&) {
    throw Error(ErrorKind::kInvalidInput, "'" + name + "' is not a device; write cpu, or cuda:0 for the first GPU");
  }
  if (device->is_cpu()) return c10::Device(c10::kCPU);
  load_kernels(device->type());
  const auto* guard =
      c10::impl::hasDeviceGuardImpl(device->type()) ? c10::impl::getDeviceGuardImpl(device->type()) : nullptr;
  const c10::DeviceIndex count = guard == nullptr ? 0 : guard->deviceCount();
  const c10::DeviceIndex index = device->has_index() ? device->index() : 0;
  if (index >= count) {
    throw Error(ErrorKind::kNotFound, "device " + name + " is not there: this machine shows " + std::to_string(count) +
                                          " of that kind; see that its driver is installed and it is not hidden");
  }
  return c10::Device(device->type(), index);
}

DType dtype_of(const TensorHandle& tensor) { return dtype_of(tensor->value.scalar_type()); }
std::vector<std::int64_t> sizes_of(const TensorHandle& tensor) { return tensor->value.sizes().vec(); }
Bytes byte_size(const TensorHandle& tensor) { return Bytes(static_cast<std::int64_t>(tensor->value.nbytes())); }
std::byte* data_pointer(const TensorHandle& tensor) {
  MOTLEY_CHECK(tensor->value.is_contiguous(), "the bytes of a tensor that is not contiguous");
  return static_cast<std::byte*>(tensor->value.data_ptr());
}

bool share_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

}  // namespace motley
