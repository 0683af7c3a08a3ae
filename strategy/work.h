#pragma once

// How much work and memory each op group is, per device: what baselines balance by and a search starts from.

#include <vector>

#include "graph/graph.h"
#include "profiler/cost_model.h"
#include "proto/cluster.h"

namespace motley {

struct GroupWork {
  std::vector<double> seconds;          // per device: all ops of the group, updates included, on the whole batch
  std::vector<double> forward_seconds;  // of these, forward ops
  std::vector<double> update_seconds;   // ... updates, which no micro-batch repeats
  std::int64_t state_bytes = 0;  // owned parameters, their gradients and optimizer states; buffers that its ops write
  std::int64_t parameter_bytes = 0;
  std::int64_t activation_bytes = 0;  // whole batch: outputs of forward ops that are no views, and what ops keep
  std::int64_t kept_bytes = 0;        // of these, what backward ops take
  std::int64_t handed_bytes = 0;   // ... and what forward ops of other groups take: stays where the rest is made again
  std::int64_t passing_bytes = 0;  // the most that one of its ops makes, but parameters' gradients, and needs beside
};

// One per group. Thread-safe.
std::vector<GroupWork> group_work(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                  std::int64_t batch);

// Per device: the compute time of one whole iteration there.
std::vector<double> iteration_seconds(const std::vector<GroupWork>& work, const Cluster& cluster);

// Groups in the order of their first op: neighbours in it are neighbours in the model.
std::vector<GroupId> model_order(const Graph& graph);

}  // namespace motley
