#pragma once

// The cluster as its agents found and measured it.

#include <map>
#include <string>
#include <vector>

#include "proto/cluster.h"
#include "proto/worker.pb.h"

namespace motley {

struct UsedDevice {
  proto::NodeDescription node;
  proto::DeviceDescription device;
};

// A star: each device hangs by a link on its node, each node by a link on one switch. A pair's bandwidth is the lesser
// of its ends', its latency their sum, so from the measured pairs follow
//   an end's bandwidth: the greatest of its pairs' (the fastest end is never seen faster than the second);
//   latencies: the least squares solution of l_i + l_j = latency_ij.
// Between nodes this gives the nodes' links, between the devices of a node the devices' links. Pairs that were not
// measured count with the catalogue's figures of the device. Devices stand in the order of `devices`.
Cluster cluster_of_nodes(const std::vector<UsedDevice>& devices, const std::vector<proto::LinkFigure>& links);

}  // namespace motley
