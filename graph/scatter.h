#pragma once

// The inverse of a view op.

#include <optional>
#include <vector>

#include "graph/forward_builder.h"

namespace motley {

// The op that puts `part`, a new value of output `place` of the view op `view`, into `whole`, the tensor of shape
// `shape` that was viewed. Its name and source are left empty. Nothing when the view has no inverse.
std::optional<Call> scatter_call(const Call& view, const std::vector<TensorMeta>& outputs, std::size_t place,
                                 const Shape& shape, TensorId whole, TensorId part);

}  // namespace motley
