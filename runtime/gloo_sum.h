#pragma once

// Elementwise sums for Gloo's all-reduce, by dtype.

#include <cstddef>

#include "graph/graph.h"

namespace motley {

// result[i] = a[i] + b[i] for `count` elements; `result` may be `a` or `b`.
using SumFunction = void (*)(void* result, const void* a, const void* b, std::size_t count);

struct GlooSum {
  SumFunction function;
  std::size_t element_bytes;
};
GlooSum gloo_sum(DType dtype);

}  // namespace motley
