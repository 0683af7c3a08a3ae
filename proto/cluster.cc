#include "proto/cluster.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/suggest.h"

namespace motley {
namespace {

std::string about(const Cluster& cluster) { return (cluster.source.empty() ? "cluster" : cluster.source) + ": "; }

[[noreturn]] void refuse(const Cluster& cluster, const std::string& message) {
  throw Error(ErrorKind::kInvalidInput, about(cluster) + message);
}

VertexIndex vertex_count(const Cluster& cluster) {
  return static_cast<VertexIndex>(cluster.devices.size() + cluster.nodes.size() + cluster.switches.size());
}

void fill_devices(Cluster& cluster) {
  for (Node& node : cluster.nodes) node.devices.clear();
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    Device& device = cluster.devices[i];
    if (device.node < 0 || device.node >= static_cast<std::int32_t>(cluster.nodes.size())) {
      refuse(cluster, "device " + std::to_string(i) + " (" + device.kind + ") stands on no node");
    }
    Node& node = cluster.nodes[device.node];
    if (device.name.empty()) device.name = node.name + "/" + std::to_string(node.devices.size());
    node.devices.push_back(static_cast<DeviceIndex>(i));
    if (device.memory.value <= 0) refuse(cluster, "device " + device.name + " has no memory: give it a size above 0");
  }
}

void check_vertices(const Cluster& cluster) {
  if (cluster.devices.empty()) {
    throw UnusableCluster(about(cluster) + "there are no devices: list at least one node with devices");
  }
  std::set<std::string> names;
  for (VertexIndex v = 0; v < vertex_count(cluster); ++v) {
    const std::string name = cluster.vertex_name(v);
    if (name.empty()) refuse(cluster, "a node or switch has no name");
    if (!names.insert(name).second) refuse(cluster, "the name " + name + " stands twice: rename one of the two");
  }
}

void check_links(Cluster& cluster) {
  std::set<std::string> names;
  for (const Link& link : cluster.links) {
    if (!link.name.empty() && !names.insert(link.name).second) {
      refuse(cluster, "the link name " + link.name + " stands twice: rename one of the two");
    }
  }
  for (std::size_t i = 0; i < cluster.links.size(); ++i) {
    Link& link = cluster.links[i];
    for (const VertexIndex end : {link.a, link.b}) {
      if (end < 0 || end >= vertex_count(cluster)) refuse(cluster, "link " + std::to_string(i) + " leads to nowhere");
    }
    if (link.name.empty()) {
      const std::string base = cluster.vertex_name(link.a) + "-" + cluster.vertex_name(link.b);
      link.name = base;
      for (int n = 2; !names.insert(link.name).second; ++n) link.name = base + "-" + std::to_string(n);
    }
    if (link.a == link.b) refuse(cluster, "link " + link.name + " joins " + cluster.vertex_name(link.a) + " to itself");
    if (!(link.bandwidth.value > 0) || !std::isfinite(link.bandwidth.value)) {
      refuse(cluster, "link " + link.name + " has no bandwidth: give it one above 0");
    }
    if (!(link.latency.value >= 0) || !std::isfinite(link.latency.value)) {
      refuse(cluster, "link " + link.name + " has a negative latency");
    }
    for (std::size_t p = 0; p < link.curve.size(); ++p) {
      const RatePoint& point = link.curve[p];
      if (point.bytes.value <= 0 || (p > 0 && point.bytes <= link.curve[p - 1].bytes)) {
        refuse(cluster, "the curve of link " + link.name + " has no ascending sizes above 0");
      }
      if (!(point.rate.value > 0) || point.rate > link.bandwidth) {
        refuse(cluster, "the curve of link " + link.name +
                            " has a rate that is not above 0 and at most the bandwidth, " + to_string(link.bandwidth));
      }
    }
  }
}

double rate_of(const Link& link, double bytes) {
  const std::vector<RatePoint>& curve = link.curve;
  if (curve.empty()) return link.bandwidth.value;
  const auto above = std::ranges::find_if(
      curve, [&](const RatePoint& point) { return static_cast<double>(point.bytes.value) >= bytes; });
  if (above == curve.begin()) return curve.front().rate.value;
  if (above == curve.end()) return curve.back().rate.value;
  const RatePoint& below = above[-1];
  const double share =
      std::log2(bytes / static_cast<double>(below.bytes.value)) / std::log2(above->bytes / below.bytes);
  return below.rate.value + share * (above->rate.value - below.rate.value);
}

}  // namespace

VertexIndex Cluster::vertex_of_node(std::int32_t node) const { return static_cast<VertexIndex>(devices.size()) + node; }

VertexIndex Cluster::vertex_of_switch(std::int32_t index) const {
  return static_cast<VertexIndex>(devices.size() + nodes.size()) + index;
}

std::string Cluster::vertex_name(VertexIndex vertex) const {
  auto index = static_cast<std::size_t>(vertex);
  if (index < devices.size()) return devices[index].name;
  index -= devices.size();
  if (index < nodes.size()) return nodes[index].name;
  return switches.at(index - nodes.size());
}

DeviceIndex Cluster::device_named(const std::string& name) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].name == name) return static_cast<DeviceIndex>(i);
    names.push_back(devices[i].name);
  }
  std::string message = about(*this) + "there is no device " + name + did_you_mean(name, names) + "; its devices are";
  constexpr std::size_t kShown = 16;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) message += " " + names[i];
  if (names.size() > kShown) message += " and " + std::to_string(names.size() - kShown) + " more";
  throw Error(ErrorKind::kNotFound, message);
}

Seconds Cluster::shortfall(std::span<const ChannelIndex> route, double bytes) const {
  double width = INFINITY;
  double rate = INFINITY;
  for (const ChannelIndex channel : route) {
    const Link& link = links[channel / 2];
    width = std::min(width, link.bandwidth.value);
    rate = std::min(rate, rate_of(link, bytes));
  }
  return Seconds(bytes / rate - bytes / width);
}

void Cluster::leave_free(const Headroom& headroom) {
  for (Device& device : devices) device.headroom = headroom;
}

std::optional<double> Cluster::price() const {
  double sum = 0;
  for (const Node& node : nodes) sum += node.price;
  for (const Device& device : devices) {
    if (!device.price) return std::nullopt;
    sum += *device.price;
  }
  return sum;
}

void Cluster::finish() {
  fill_devices(*this);
  check_vertices(*this);
  check_links(*this);
  routes_ = Routes(*this);
  if (const auto pair = routes_.unjoined(*this)) {
    throw UnusableCluster(about(*this) + "no path of links joins " + devices[pair->first].name + " and " +
                          devices[pair->second].name + ": add a link between their nodes or through a switch");
  }
}

Seconds Cluster::latency(DeviceIndex from, DeviceIndex to) const {
  Seconds sum;
  for (const ChannelIndex channel : route(from, to)) sum += links[channel / 2].latency;
  return sum;
}

BytesPerSecond Cluster::bandwidth(DeviceIndex from, DeviceIndex to) const {
  BytesPerSecond least{INFINITY};
  for (const ChannelIndex channel : route(from, to)) least = std::min(least, bandwidth(channel));
  return least;
}

}  // namespace motley
