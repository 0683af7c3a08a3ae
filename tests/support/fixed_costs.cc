#include "tests/support/fixed_costs.h"

#include <algorithm>
#include <string>
#include <utility>

namespace motley::support {

FixedCosts::FixedCosts(const Graph& graph, std::vector<double> speeds_of_devices, double seconds)
    : seconds_per_sample(graph.ops.size(), seconds),
      kept(graph.ops.size()),
      workspace(graph.ops.size()),
      speeds(std::move(speeds_of_devices)) {
  for (const Op& op : graph.ops) is_update_.push_back(op.kind == OpKind::kUpdate);
}

OpCost FixedCosts::op(OpId op, DeviceIndex device, std::int64_t batch) const {
  const auto index = static_cast<std::size_t>(op);
  const double samples = is_update_[index] ? 1.0 : static_cast<double>(batch);
  OpCost cost;
  cost.time = Seconds(seconds_per_sample[index] * samples / speeds[static_cast<std::size_t>(device)]);
  cost.kept = kept[index] * batch;
  cost.workspace = workspace[index] * batch;
  cost.measured = measured;
  return cost;
}

Seconds FixedCosts::memory_pass(DeviceIndex, Bytes bytes) const { return bytes / memory_rate; }
MessageCosts FixedCosts::messages(DeviceIndex) const { return message_costs; }
Bytes FixedCosts::context(DeviceIndex) const { return context_bytes; }

std::int32_t FixedCosts::cost_class(DeviceIndex device) const {
  const double speed = speeds[static_cast<std::size_t>(device)];
  return static_cast<std::int32_t>(std::find(speeds.begin(), speeds.end(), speed) - speeds.begin());
}

Cluster star_cluster(int count, std::vector<BytesPerSecond> bandwidths, Seconds latency, Bytes memory) {
  Cluster cluster;
  cluster.source = "star_cluster";
  cluster.switches = {"tor"};
  for (int i = 0; i < count; ++i) {
    const std::string node = "n" + std::to_string(i);
    cluster.devices.push_back({node + "/0", "test", i, memory});
    cluster.nodes.push_back({node, {i}});
  }
  for (int i = 0; i < count; ++i) {
    const std::string node = "n" + std::to_string(i);
    cluster.links.push_back({node + "-host", i, cluster.vertex_of_node(i), BytesPerSecond(1e18), Seconds(0), true});
    cluster.links.push_back({node + "-tor", cluster.vertex_of_node(i), cluster.vertex_of_switch(0),
                             bandwidths[static_cast<std::size_t>(i) % bandwidths.size()], latency, true});
  }
  cluster.finish();
  return cluster;
}

}  // namespace motley::support
