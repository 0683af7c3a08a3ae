#pragma once

// What compilations of one graph on one cluster share, worked out once.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "profiler/cost_model.h"
#include "proto/cluster.h"

namespace motley {

struct TensorInfo {
  BatchLayout::Kind kind = BatchLayout::Kind::kIndependent;  // of a gradient: of what it is a gradient of
  GroupId home = kNone;   // the group whose replicas make it; kNone for inputs and state
  TensorId root = kNone;  // the tensor whose storage it shares; itself when it is no view
  bool persistent = false;
  bool written = false;            // a buffer that forward ops write
  bool saved = false;              // an activation that a backward op takes
  bool gradient_of_whole = false;  // a gradient of a completed value: to be summed over the replicas
  bool linear = false;             // bytes = fixed_bytes + sample_bytes * samples
  std::int64_t fixed_bytes = 0;
  std::int64_t sample_bytes = 0;
};

struct OpInfo {
  bool early = false;       // forward, from the model's inputs alone, and a completed value rests on it: runs for all
                            // micro-batches before all else
  bool repeatable = false;  // forward: gives the same again
  bool cheap = false;       // forward: no matrix product, convolution, attention or recurrence
  std::int32_t gradients = 0;           // backward: so many leading inputs are gradients
  std::vector<std::int32_t> completed;  // places in `inputs` that take the completed value
};

// A parameter that is trained.
struct ParameterInfo {
  OpId update = kNone;
  TensorId parameter = kNone;
  TensorId gradient = kNone;
  std::vector<TensorId> parts;  // of the gradient, each made by one backward op
  std::vector<GroupId> users;   // groups that use it, ascending
  GroupId owner = kNone;
  OpId ready = kNone;  // the last backward op that adds to it
};

// A tensor that cannot be cut, used outside the group that makes it: both must be placed alike.
struct Bond {
  TensorId tensor = kNone;
  GroupId maker = kNone;
  GroupId user = kNone;
};

struct CompilerTables {
  CompilerTables(const Graph& graph, const Cluster& cluster, const CostModel& costs);

  const Graph& graph;
  const Cluster& cluster;
  const CostModel& costs;
  std::vector<TensorInfo> tensors;
  std::vector<OpInfo> ops;
  std::vector<ParameterInfo> parameters;  // in the order in which their gradients become ready
  std::vector<Bond> bonds;
  std::vector<std::pair<GroupId, GroupId>> group_edges;  // forward, between groups, each once
  TensorId late_completion = kNone;  // a value that must be made whole over the batch and rests on parameters

  std::int32_t devices() const { return static_cast<std::int32_t>(cluster.devices.size()); }
  std::int64_t bytes(TensorId tensor, std::int64_t samples) const {
    const TensorInfo& info = tensors[static_cast<std::size_t>(tensor)];
    if (info.linear) return info.fixed_bytes + info.sample_bytes * samples;
    return graph.tensors[static_cast<std::size_t>(tensor)].bytes(samples).value;
  }
  double transfer_seconds(DeviceIndex from, DeviceIndex to, std::int64_t bytes) const {
    const std::size_t place = static_cast<std::size_t>(from) * cluster.devices.size() + static_cast<std::size_t>(to);
    const Pair pair = pairs_.empty() ? measure(from, to) : pairs_[place];
    return pair.latency + pair.per_byte * static_cast<double>(bytes);
  }
  // Ring all-reduce: 2(n-1) steps of bytes/n each over the slowest pair of neighbours (Patarasuk, Yuan: JPDC 2009).
  double all_reduce_seconds(std::span<const DeviceIndex> members, std::int64_t bytes) const;

 private:
  struct Pair {          // of two devices; nothing from one to itself
    double latency = 0;  // seconds, both ends' message overhead included
    double per_byte = 0;
  };
  Pair measure(DeviceIndex from, DeviceIndex to) const;
  std::vector<Pair> pairs_;  // from * devices + to; none of many devices, whose pairs are worked out when they are met
};

}  // namespace motley
