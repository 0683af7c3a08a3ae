#pragma once

// Whether LibTorch can run a graph, before anything runs.

#include <string>

#include "graph/graph.h"

namespace motley {

// Throws Error(kUnsupported) that names the op, the line of the user's model and what is missing, for the first op
// whose schema the dispatcher lacks, whose arguments do not fit its schema, that has no kernel on the device's backend
// ("cpu", "cuda:0"), or that the graph differentiates although no backward exists for it. Costs a few microseconds an
// op.
void check_dispatch(const Graph& graph, const std::string& device);

}  // namespace motley
