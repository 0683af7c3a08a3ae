#include "runtime/host_tensor.h"

namespace motley {

std::int64_t element_count(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}

HostTensor make_host_tensor(DType dtype, std::vector<std::int64_t> sizes) {
  for (std::int64_t size : sizes) {
    if (size < 0) throw Error(ErrorKind::kInvalidInput, "a tensor cannot have the size " + std::to_string(size));
  }
  const std::int64_t bytes = element_count(sizes) * size_of(dtype).value;
  return {dtype, std::move(sizes), std::vector<std::byte>(static_cast<std::size_t>(bytes))};
}

}  // namespace motley
