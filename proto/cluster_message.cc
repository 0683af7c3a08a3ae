#include "proto/cluster_message.h"

namespace motley {

proto::Cluster to_message(const Cluster& cluster) {
  proto::Cluster message;
  for (const Device& device : cluster.devices) {
    proto::Cluster::Device& row = *message.add_devices();
    row.set_name(device.name);
    row.set_kind(device.kind);
    row.set_node(device.node);
    row.set_memory_bytes(device.memory.value);
  }
  for (const Node& node : cluster.nodes) message.add_nodes(node.name);
  for (const std::string& name : cluster.switches) message.add_switches(name);
  for (const Link& link : cluster.links) {
    proto::Cluster::Link& row = *message.add_links();
    row.set_name(link.name);
    row.set_a(link.a);
    row.set_b(link.b);
    row.set_bytes_per_second(link.bandwidth.value);
    row.set_latency_seconds(link.latency.value);
    row.set_half_duplex(!link.full_duplex);
    for (const RatePoint& point : link.curve) {
      proto::Cluster::Link::RatePoint& entry = *row.add_curve();
      entry.set_bytes(point.bytes.value);
      entry.set_bytes_per_second(point.rate.value);
    }
  }
  message.set_source(cluster.source);
  return message;
}

Cluster from_message(const proto::Cluster& message) {
  Cluster cluster;
  for (const proto::Cluster::Device& row : message.devices()) {
    cluster.devices.push_back({row.name(), row.kind(), row.node(), Bytes(row.memory_bytes())});
  }
  for (const std::string& name : message.nodes()) cluster.nodes.push_back({name, {}});
  cluster.switches.assign(message.switches().begin(), message.switches().end());
  for (const proto::Cluster::Link& row : message.links()) {
    cluster.links.push_back({row.name(), row.a(), row.b(), BytesPerSecond(row.bytes_per_second()),
                             Seconds(row.latency_seconds()), !row.half_duplex()});
    for (const proto::Cluster::Link::RatePoint& point : row.curve()) {
      cluster.links.back().curve.push_back({Bytes(point.bytes()), BytesPerSecond(point.bytes_per_second())});
    }
  }
  cluster.source = message.source();
  cluster.finish();
  return cluster;
}

}  // namespace motley
