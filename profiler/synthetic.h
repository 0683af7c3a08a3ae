#pragma once

// Inputs for ops that are run to be timed, not for their results: values that no kernel stumbles over. Integers that
// index something lie within it, variances are positive, nothing is denormal. Pure functions of their arguments.

#include "graph/graph.h"
#include "runtime/host_tensor.h"

namespace motley {

// The least size that anything indexes with this integer tensor, whether at once or after reshaping: rows of an
// embedding's table, classes of a loss, a dimension that is gathered from. 0: nothing does. Needs Graph::consumers.
std::int64_t index_bound(const Graph& graph, TensorId tensor, std::int64_t batch);

// A value for a tensor that no op makes: inputs in [-1, 1), parameters in [-0.05, 0.05), buffers and constants in
// [0.5, 1), optimizer states 0; integers below their index_bound, and 1 where there is none; true.
HostTensor synthetic_value(const Graph& graph, TensorId tensor, std::int64_t batch);

}  // namespace motley
