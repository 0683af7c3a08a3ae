#pragma once

// A lower bound on the time of one iteration that no strategy of the space can beat, on this model, cluster and costs:
// any devices and shares, any gradient method, pipelines of any stages and micro-batches in any order of work, with
// recomputation or without, as long as it fits in memory.
//
// It is the optimum of a linear program in the time T and, for each op group g and each class c of k_c alike devices
// (strategy/alike.h),
//     x[g,c]  the part of the batch's samples that g works on there; sum over c of x[g,c] = 1;
//     v[g,c]  the part of g's parameters, in bytes, that is updated there if it is updated once; sum over c of v[g,c]
//     = 1.
// Every strategy that fits gives such x and v, and keeps what the rows say:
//
// Compute. An op that meets the batch takes a device at least r * n for n samples in whatever micro-batches, r being
// the least of its cost over its samples (strategy/bound/least_costs.h). Any other forward op runs at least once where
// its group has a sample, and an update on one of the devices that hold the parameter (of backward ops that meet no
// batch some may run elsewhere; they are left out). A device computes one thing at a time:
//     sum over g of work[g,c] x[g,c] + update[g,c] v[g,c] <= k_c T.
//
// Memory. A device with a sample of g holds all of g's own parameters and buffers, and one that updates a parameter
// also the optimizer's states of it, from beginning to end:
//     sum over g of held[g] x[g,c] + states[g] v[g,c] <= memory of c, all k_c together;
//     x[g,c] = 0 where a device of c is too small for held[g].
//
// Activations. A set S of devices works on the part a_g of g's samples. Of a tensor that g makes and h takes, at least
// a_h - a_g of the samples come in over the links that part S from the rest, and of its gradient a_g - a_h. What a link
// carries takes as long as its bandwidth says, and the flows over the least cut have no other way
// (strategy/bound/traffic.h). So, for any choice of signs, which are what the maxima with 0 leave,
//     sum over tensors of bytes * (a_h - a_g) or (a_g - a_h) or 0 <= rate(S) T,    and likewise outwards.
// S are the classes, and all devices behind one switch.
//
// Critical path. A sample passes through the ops one after the other; on a device an op takes at least its least cost
// over batches 1..B, and a backward op comes after its forward op. So along any path of the graph, on the average of
// all samples,
//     sum over ops of the path of sum over c of least[op,c] x[group of op,c] <= T.
//
// Rows of the last two kinds are added while the optimum so far breaks one. The optimum is then worked out once more
// from the rows' multipliers: multipliers m >= 0 that count T once give, for each g, at least the least of sum m *
// factor over c, so the bound holds whatever the solver's tolerances (weak duality).
//
// What it misses: a sample's part in the mean is no device's part. That x[g,c] is a fraction may mean that g is shared,
// when its gradients must meet, or that some groups are here and others there, when activations cross; the program may
// take half of each, so gradients cost it nothing. It also misses latencies, memory passes, the order on a device, that
// a device with few samples does not reach its best rate, that classes are not one device, and what activations need of
// memory.

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "profiler/cost_model.h"

namespace motley {

struct LowerBound {
  struct Part {
    std::string name;  // "compute of V100-16GB", "links of P100-12GB", "critical path"
    double share = 0;  // of the bound: its multiplier
  };

  Seconds time;
  std::vector<Part> parts;                // that hold it up, the largest first; they sum to 1
  std::optional<std::string> never_fits;  // why no strategy fits at any batch; then there is no time

  Seconds seconds() const { return time; }
};

// Thread-safe.
LowerBound lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch);

}  // namespace motley
