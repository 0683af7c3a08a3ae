#include "imports/sailor_cluster.h"

#include "base/index.h"

namespace motley {

void SailorClusterBuilder::add_node() {
  cluster_.nodes.emplace_back().name = "n" + std::to_string(cluster_.nodes.size());
  used_.push_back(0);
}

void SailorClusterBuilder::add_device(const std::string& gpu, std::int64_t gpus) {
  used_.back() += gpus;
  const auto node = static_cast<std::int32_t>(cluster_.nodes.size() - 1);
  cluster_.devices.push_back({"", gpu, node, profiles_.memory(gpu)});
}

Cluster SailorClusterBuilder::finish(const std::string& source) {
  cluster_.source = source;
  cluster_.switches = {"network"};
  for (DeviceIndex device = 0; device < static_cast<DeviceIndex>(cluster_.devices.size()); ++device) {
    const std::string gpu = cluster_.devices[at(device)].kind;
    const std::int32_t node = cluster_.devices[at(device)].node;
    const auto outside = profiles_.bandwidth("inter", gpu, used_[at(node)]);
    add_link(device, cluster_.vertex_of_switch(0), rates_of(outside.bandwidth, outside.gpus));
    const auto inside = profiles_.bandwidth("intra", gpu, 2);
    add_link(device, cluster_.vertex_of_node(node), rates_of(inside.bandwidth, 1));
  }
  cluster_.finish();
  return std::move(cluster_);
}

void SailorClusterBuilder::add_link(DeviceIndex device, VertexIndex to, std::vector<RatePoint> rates) {
  Link link{.name = "", .a = device, .b = to};
  link.bandwidth = rates.back().rate;
  link.curve = std::move(rates);
  cluster_.links.push_back(std::move(link));
}

Cluster sailor_cluster(const SailorProfiles& profiles, const std::map<std::string, std::int64_t>& gpus) {
  SailorClusterBuilder builder(profiles);
  std::string source;
  for (const auto& [gpu, count] : gpus) {
    source += (source.empty() ? "" : ", ") + std::to_string(count) + " " + gpu;
    const std::int64_t per_node = profiles.gpus_per_node(gpu);
    for (std::int64_t i = 0; i < count; ++i) {
      if (i % per_node == 0) builder.add_node();
      builder.add_device(gpu, 1);
    }
  }
  return builder.finish(source);
}

}  // namespace motley
