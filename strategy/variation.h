#pragma once

// What a what-if varies, and one machine and job that comes of it.
//
// A variation is written WHAT[:WHICH]=VALUE,VALUE,...:
//
//   batch=64,128                      samples per iteration
//   dtype=f32,f16                     the model cast to that type (graph/cast.h)
//   nodes:NODE=1,2,4                  so many of that node of the file, each with its links
//   devices:NODE=1,2,4                so many devices in it
//   kind:NODE_OR_KIND=T4,A100-40GB    another kind of device, with the catalogue's memory and links
//   bandwidth[:LINK_OR_END]=10Gbps,x2 of links; of an end, all its links; without it, all that do not end at a device;
//                                     "x2" is twice what it was
//   lost=none,NODE,each               a node that is gone; each: each in turn
//   speed:DEVICE_NODE_OR_KIND=1,0.5   devices that take 1/0.5 times as long for everything
//
// WHICH may end in "*" where it names links, ends, devices, nodes or kinds of the cluster.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "profiler/cost_model.h"
#include "proto/cluster.h"

namespace motley {

struct Variation {
  enum class What { kBatch, kDType, kNodes, kDevices, kKind, kBandwidth, kLost, kSpeed };
  What what = What::kBatch;
  std::string which;
  std::vector<std::string> values;  // at least one, each of the right form

  std::string title() const;  // "batch", "bandwidth of uplink-a"
};
// Throws Error(kInvalidInput) that says what is written instead.
Variation parse_variation(const std::string& text);

// A job on a cluster: the cluster file's, with one value of each variation.
struct Scenario {
  Cluster cluster;
  std::int64_t batch = 0;
  std::optional<DType> dtype;  // that the model is cast to
  std::vector<double> speeds;  // by device; 1: as its costs say
};

// Reads the cluster with some changes.
using ClusterReader = std::function<Cluster(const ClusterChanges&)>;

// `values[i]` is one of `variations[i].values`, "each" replaced by a node's name. Throws Error(kInvalidInput) when the
// cluster has not what a variation names, and as `read` does.
Scenario make_scenario(const ClusterReader& read, std::int64_t batch, const std::vector<Variation>& variations,
                       const std::vector<std::string>& values);

}  // namespace motley
