#pragma once

// What an op takes at the least on a device, over all batch sizes that a strategy may give it.
//
// Least costs are found by halving the range of batches until a piece is straight, and are exact for curves of straight
// pieces, as profiler/curve.h makes them.

#include <vector>

#include "graph/graph.h"
#include "profiler/cost_model.h"

namespace motley {

struct LeastCost {
  Seconds once;    // one run, dispatch included
  Seconds sample;  // the least of its run over its samples
};

// Of one op on each of the devices, over the batches 1..most. Thread-safe.
std::vector<LeastCost> least_costs(const CostModel& costs, OpId op, const std::vector<DeviceIndex>& devices,
                                   std::int64_t most);

// Whether an op's work grows with the samples: it takes or makes something that is split along the batch.
bool meets_batch(const Graph& graph, const Op& op);

}  // namespace motley
