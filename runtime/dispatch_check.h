#pragma once

// Whether LibTorch can run a graph, before anything runs.

#include "graph/graph.h"
#include "runtime/executor.h"

namespace motley {

// `executor` was opened for `graph`. Throws Error(kUnsupported) that names the op, the line of the user's model and
// what is missing, for the first op whose schema the dispatcher lacks, whose arguments do not fit it, that has no
// kernel on the executor's device, or that the graph differentiates although no backward exists for it.
//
// Schemas and arguments are looked at for every op. Whether a kernel and a backward exist shows only when they run, so
// of each operator the smallest op is run, on zeros, at the smallest batch. Takes some ten milliseconds. Drops contexts
// and draws random numbers.
void check_dispatch(const Graph& graph, Executor& executor);

}  // namespace motley
