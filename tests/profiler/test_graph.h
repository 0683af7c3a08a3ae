#pragma once

// Small training graphs for the profiler's tests.

#include "graph/graph.h"

namespace motley {

// Layers of y = relu(x W + b), x [B, width], and a mean as the loss; per layer the forward ops "mm", "add" and "relu",
// their gradients, and one SGD update each for W and b. Targets are ATen's.
Graph make_mlp(int layers, std::int64_t width = 16);

}  // namespace motley
