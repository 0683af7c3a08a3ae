#include "strategy/alike.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace motley {

std::vector<VertexIndex> places_of_nodes(const Cluster& cluster) {
  const auto hosts = static_cast<VertexIndex>(cluster.devices.size());
  const auto switches = hosts + static_cast<VertexIndex>(cluster.nodes.size());
  std::vector<VertexIndex> places;
  for (VertexIndex host = hosts; host < switches; ++host) places.push_back(host);
  for (const Link& link : cluster.links) {
    const auto [host, other] = std::minmax(link.a, link.b);
    if (host < hosts || host >= switches || other < switches) continue;
    VertexIndex& place = places[static_cast<std::size_t>(host - hosts)];
    if (place < switches || other < place) place = other;
  }
  return places;
}

std::vector<std::vector<DeviceIndex>> alike_devices(const Cluster& cluster, const CostModel& costs, Near near) {
  const std::vector<VertexIndex> places =
      near == Near::kPlace ? places_of_nodes(cluster) : std::vector<VertexIndex>(cluster.nodes.size(), 0);
  std::map<std::tuple<VertexIndex, std::int32_t, Bytes>, std::size_t> known;
  std::vector<std::vector<DeviceIndex>> sets;
  for (DeviceIndex d = 0; d < static_cast<DeviceIndex>(cluster.devices.size()); ++d) {
    const Device& device = cluster.devices[static_cast<std::size_t>(d)];
    const VertexIndex place = near == Near::kNode ? device.node : places[static_cast<std::size_t>(device.node)];
    const auto [set, fresh] = known.try_emplace({place, costs.cost_class(d), device.usable()}, sets.size());
    if (fresh) sets.emplace_back();
    sets[set->second].push_back(d);
  }
  return sets;
}

}  // namespace motley
