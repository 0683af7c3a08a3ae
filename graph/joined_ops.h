#pragma once

// Inside graph/: the first half of clustering (graph/clustering.h).

#include <vector>

#include "graph/graph.h"

namespace motley {

// Sets of forward ops that must be in one group, in a topological order; each set ascending. No set reaches itself
// through another.
std::vector<std::vector<OpId>> join_ops(const Graph& graph);

}  // namespace motley
