#include "graph/strides.h"

#include <cstdint>
#include <vector>

namespace motley {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers at(const Shape& shape, std::int64_t batch) {
  Numbers numbers;
  for (const BatchExpr& size : shape) numbers.push_back(size.at(batch));
  return numbers;
}

// Walks both shapes from the innermost dimension; a run of dimensions that is contiguous among itself may be cut anew.
bool can_view_at(const Numbers& sizes, const Numbers& strides, const Numbers& target) {
  std::size_t left = target.size();
  std::int64_t run = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    run *= sizes[i];
    const bool run_ends = i == 0 || (sizes[i - 1] != 1 && strides[i - 1] != sizes[i] * strides[i]);
    if (!run_ends) continue;
    std::int64_t filled = 1;
    while (left > 0 && (filled < run || target[left - 1] == 1)) filled *= target[--left];
    if (filled != run) return false;
    run = 1;
  }
  return left == 0;
}

// A dimension of size 1 has any stride; giving it the dense one joins it to its neighbour's run.
Numbers without_ones(const Numbers& sizes, Numbers strides) {
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) strides[i] = i + 1 < sizes.size() ? sizes[i + 1] * strides[i + 1] : 1;
  }
  return strides;
}

}  // namespace

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size());
  BatchExpr stride(1);
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * shape[i];
  }
  return strides;
}

bool is_dense(const Shape& shape, const Shape& strides) {
  const Shape dense = dense_strides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != BatchExpr(1) && strides[i] != dense[i]) return false;
  }
  return true;
}

bool can_view(const Shape& shape, const Shape& strides, const Shape& target) {
  for (const std::int64_t batch : {1009, 10007}) {
    const Numbers sizes = at(shape, batch);
    if (!can_view_at(sizes, without_ones(sizes, at(strides, batch)), at(target, batch))) return false;
  }
  return true;
}

}  // namespace motley
