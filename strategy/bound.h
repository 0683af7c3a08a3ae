#pragma once

// A lower bound on the time of one iteration that no strategy of the space can beat, on this model, cluster and costs.
// It is the larger of two.
//
// Work. Every op that meets the batch runs on all B samples, in shares b_d that sum to B; it costs device d at least
// r(op, d) * b_d, where r(op, d) = min over b in 1..B of cost(op, d, b) / b. An op that does not meet the batch, and an
// update, run at least once somewhere, at no less than their least cost. The busiest device is at least as busy as any
// average of all: with weights l_d >= 0 that sum to 1,
//     iteration >= max_d busy_d >= sum_d l_d busy_d >= sum over ops of min_d l_d * r(op, d) * B.
// The right side is a bound for any weights. It is concave in them; they start at the devices' speeds, where it is
// exact when one device is faster than another by the same factor on all ops, and subgradient steps raise it from there
// (the Lagrangian dual of scheduling on unrelated machines: Lenstra, Shmoys, Tardos, Math. Programming 46, 1990,
// section 1).
//
// Critical path. A sample passes through the ops one after the other, whatever device holds it; an op takes at least
// its least cost over devices and batches 1..B. The longest path of the graph under these costs is a bound.
//
// What it misses: all communication, memory passes, the order on a device, that a device with few samples does not
// reach its best rate, and memory but for this: parameters, optimizer states and buffers must lie somewhere, so when
// they exceed all devices' memories together, nothing fits.
//
// Least costs are found by halving the range of batches until a piece is straight, and are exact for curves of straight
// pieces, as profiler/curve.h makes them.

#include <algorithm>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "profiler/cost_model.h"

namespace motley {

struct LowerBound {
  Seconds work;
  Seconds critical_path;
  std::optional<std::string> never_fits;  // why no strategy fits at any batch

  Seconds seconds() const { return std::max(work, critical_path); }
};

// Thread-safe.
LowerBound lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch);

}  // namespace motley
