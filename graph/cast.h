#pragma once

// The training graph of the same model in another floating type, as PyTorch would export it after `model.to(dtype)`:
// parameters, gradients, optimizer states, activations and floating inputs are all of it. (Mixed precision, which keeps
// parameters or states in float32, is another model: export it.)

#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace motley {

// MOTLEY_CHECK that `dtype` is a floating one. Only for costs and memory: there are no such weights.
Graph cast(Graph graph, DType dtype);

// "f32" and the like, or PyTorch's name ("float16"); nothing when it is no floating type.
std::optional<DType> parse_floating(std::string_view text);

}  // namespace motley
