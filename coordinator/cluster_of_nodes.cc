#include "coordinator/cluster_of_nodes.h"

#include <algorithm>

#include "profiler/catalogue.h"

namespace motley {
namespace {

// A link that nobody measured, or that was measured as a part of another one: never the bottleneck.
constexpr double kAmple = 1e12;
constexpr double kInstant = 1e-7;

struct End {
  double bandwidth = 0;
  double latency = 0;
};
using Pairs = std::map<std::pair<std::string, std::string>, const proto::LinkFigure*>;

// The ends of a star from the pairs that were measured among them. `pair(i, j)` is nullptr when it was not.
template <class Pair>
std::vector<End> ends_of_star(std::size_t count, const Pair& pair) {
  std::vector<End> ends(count);
  std::vector<double> sums(count);
  double total = 0;
  bool complete = count > 1;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      if (i == j) continue;
      const proto::LinkFigure* figure = pair(i, j);
      if (figure == nullptr) {
        complete = false;
        continue;
      }
      for (const std::size_t end : {i, j}) {
        ends[end].bandwidth = std::max(ends[end].bandwidth, figure->bytes_per_second());
        sums[end] += figure->latency_seconds() / 2;  // of the two ways
      }
      total += figure->latency_seconds() / 2;
    }
  }
  if (!complete) return ends;
  // With n > 2 ends: sum_i = (n - 2) l_i + L where L, the sum of all l, is total / (n - 1).
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = static_cast<double>(count);
    ends[i].latency = count == 2 ? sums[i] / 2 : (sums[i] - total / (n - 1)) / (n - 2);
  }
  return ends;
}

}  // namespace

Cluster cluster_of_nodes(const std::vector<UsedDevice>& devices, const std::vector<proto::LinkFigure>& links) {
  Cluster cluster;
  cluster.source = "the agents";
  for (const UsedDevice& used : devices) {
    auto node = std::find_if(cluster.nodes.begin(), cluster.nodes.end(),
                             [&](const Node& known) { return known.name == used.node.name(); });
    if (node == cluster.nodes.end()) node = cluster.nodes.insert(node, Node{.name = used.node.name()});
    node->devices.push_back(static_cast<DeviceIndex>(cluster.devices.size()));
    cluster.devices.push_back({.name = used.device.name(),
                               .kind = used.device.kind(),
                               .node = static_cast<std::int32_t>(node - cluster.nodes.begin()),
                               .memory = Bytes{used.device.memory()}});
  }
  Pairs pairs;
  for (const proto::LinkFigure& figure : links) pairs[{figure.from(), figure.to()}] = &figure;
  const auto measured = [&](DeviceIndex a, DeviceIndex b) -> const proto::LinkFigure* {
    const auto found = pairs.find({cluster.devices[a].name, cluster.devices[b].name});
    return found == pairs.end() ? nullptr : found->second;
  };
  const auto add_link = [&](VertexIndex a, VertexIndex b, const End& end) {
    Link link;
    link.name = cluster.vertex_name(a) + "-" + cluster.vertex_name(b);
    link.a = a;
    link.b = b;
    link.bandwidth = BytesPerSecond{end.bandwidth > 0 ? end.bandwidth : kAmple};
    link.latency = Seconds{std::max(end.latency, kInstant)};
    cluster.links.push_back(link);
  };

  if (cluster.nodes.size() > 1) cluster.switches.push_back("network");
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    const auto& members = cluster.nodes[n].devices;
    auto ends =
        ends_of_star(members.size(), [&](std::size_t i, std::size_t j) { return measured(members[i], members[j]); });
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (ends[i].bandwidth == 0 && members.size() > 1) {
        const KindDefaults kind = catalogue_defaults(cluster.devices[members[i]].kind);
        ends[i] = {kind.host_bandwidth.value, kind.host_latency.value};
      }
      add_link(members[i], cluster.vertex_of_node(static_cast<std::int32_t>(n)), ends[i]);
    }
  }
  if (cluster.nodes.size() > 1) {
    // Each node by its first device, which measured for all of them.
    const auto ends = ends_of_star(cluster.nodes.size(), [&](std::size_t i, std::size_t j) {
      return measured(cluster.nodes[i].devices[0], cluster.nodes[j].devices[0]);
    });
    for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
      End end = ends[n];
      // A message between first devices crosses their own links too.
      const auto own = std::find_if(cluster.links.begin(), cluster.links.end(),
                                    [&](const Link& link) { return link.a == cluster.nodes[n].devices[0]; });
      end.latency -= own->latency.value;
      add_link(cluster.vertex_of_node(static_cast<std::int32_t>(n)), cluster.vertex_of_switch(0), end);
    }
  }
  cluster.finish();
  return cluster;
}

}  // namespace motley
