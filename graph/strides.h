#pragma once

// Strides as expressions of the batch size, and when a reshape needs no copy.

#include "graph/batch_expr.h"

namespace motley {

// Row-major and without gaps.
Shape dense_strides(const Shape& shape);
// Dimensions of size 1 may have any stride.
bool is_dense(const Shape& shape, const Shape& strides);
// Whether a tensor of this shape and these strides can be seen as `target` without a copy, at batch sizes in general:
// the rule of aten's computeStride, tried at two batch sizes that divide nothing in sight.
bool can_view(const Shape& shape, const Shape& strides, const Shape& target);

}  // namespace motley
