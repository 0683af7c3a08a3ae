#pragma once

// What must cross the boundary of any set of devices, and how much can.

#include <span>
#include <vector>

#include "graph/graph.h"
#include "proto/cluster.h"

namespace motley {

// What one op group hands to others, per iteration on the whole batch. Tensors that the same groups make and use are
// one exchange.
struct Exchange {
  GroupId maker = 0;
  std::vector<GroupId> takers;     // of the value
  std::vector<GroupId> returners;  // ... whose backward pass adds to its gradient, which the maker takes
  double bytes = 0;                // of the value
  double gradient_bytes = 0;       // 0 when the maker takes no gradient
};

// Of the tensors that are split along the batch: a replica fetches its samples of what other groups make, forwards and
// backwards, and nothing else brings them to it.
std::vector<Exchange> exchanges(const Graph& graph, std::int64_t batch);

// The most that can flow from `devices` (ascending) to all others at a time, and as much back: the least bandwidth of
// any links that part them (Ford, Fulkerson: Maximal flow through a network, 1956).
BytesPerSecond cut_rate(const Cluster& cluster, std::span<const DeviceIndex> devices);

}  // namespace motley
