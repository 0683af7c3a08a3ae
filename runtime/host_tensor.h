#pragma once

// A tensor as bytes in host memory: what is loaded, saved and compared. Plain values.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace motley {

// Bytes that somebody else owns (a mapped weights file, a row of a data set).
struct HostView {
  DType dtype = DType::kFloat32;
  std::span<const std::int64_t> sizes;
  std::span<const std::byte> bytes;  // contiguous, last dimension fastest
};

struct HostTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;  // empty: a scalar
  std::vector<std::byte> bytes;     // contiguous, last dimension fastest

  HostView view() const { return {dtype, sizes, bytes}; }
};

// Zeroes of a dtype and sizes. Throws Error(kInvalidInput) for a negative size.
HostTensor make_host_tensor(DType dtype, std::vector<std::int64_t> sizes);

std::int64_t element_count(std::span<const std::int64_t> sizes);

// The elements of a tensor of that C++ type (float for kFloat32, ...); MOTLEY_CHECK on a width that differs.
template <class Number>
std::span<Number> elements(HostTensor& tensor) {
  MOTLEY_CHECK(size_of(tensor.dtype).value == sizeof(Number), "element width of a host tensor");
  return {reinterpret_cast<Number*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(Number)};
}
template <class Number>
std::span<const Number> elements(const HostTensor& tensor) {
  MOTLEY_CHECK(size_of(tensor.dtype).value == sizeof(Number), "element width of a host tensor");
  return {reinterpret_cast<const Number*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(Number)};
}

}  // namespace motley
