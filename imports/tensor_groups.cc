#include "imports/tensor_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "graph/graph.h"

namespace motley {
namespace {

// By kind and memory, the GPUs of a node, in their order.
std::map<std::pair<std::string, std::int64_t>, std::vector<DeviceIndex>> alike(const Cluster& gpus, const Node& node) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<DeviceIndex>> kinds;
  for (const DeviceIndex gpu : node.devices) {
    const Device& device = gpus.devices[at(gpu)];
    kinds[{device.kind, device.memory.value}].push_back(gpu);
  }
  return kinds;
}

std::string group_name(const Device& first, const Device& last) {
  const std::size_t slash = last.name.rfind('/');
  return first.name + "-" + (slash == std::string::npos ? last.name : last.name.substr(slash + 1));
}

void share(Link& link, double degree) {
  link.bandwidth = BytesPerSecond(link.bandwidth.value / degree);
  for (RatePoint& point : link.curve) point.rate = BytesPerSecond(point.rate.value / degree);
}

}  // namespace

bool has_tensor_groups(const Cluster& gpus, std::int64_t degree) {
  return std::ranges::any_of(gpus.nodes, [&](const Node& node) {
    return std::ranges::any_of(
        alike(gpus, node), [&](const auto& kind) { return static_cast<std::int64_t>(kind.second.size()) >= degree; });
  });
}

Cluster in_tensor_groups(const Cluster& gpus, std::int64_t degree) {
  if (degree == 1) return gpus;
  const auto size = static_cast<std::size_t>(degree);
  Cluster groups;
  groups.source = gpus.source;
  groups.nodes = gpus.nodes;
  groups.switches = gpus.switches;
  std::vector<VertexIndex> vertex(gpus.devices.size(), kNone);  // of groups, by the first GPU
  for (const Node& node : gpus.nodes) {
    for (const auto& [kind, members] : alike(gpus, node)) {
      for (std::size_t first = 0; first + size <= members.size(); first += size) {
        Device group = gpus.devices[at(members[first])];
        vertex[at(members[first])] = static_cast<VertexIndex>(groups.devices.size());
        group.name = group_name(group, gpus.devices[at(members[first + size - 1])]);
        if (group.price) group.price = *group.price * static_cast<double>(degree);
        groups.devices.push_back(std::move(group));
      }
    }
  }
  if (groups.devices.empty()) {
    throw Error(ErrorKind::kInvalidInput, gpus.source + ": no node has " + std::to_string(degree) +
                                              " GPUs of a kind for a tensor-parallel group: choose a lower degree");
  }
  const auto gone = static_cast<VertexIndex>(gpus.devices.size() - groups.devices.size());
  for (std::size_t v = gpus.devices.size(); v < gpus.devices.size() + gpus.nodes.size() + gpus.switches.size(); ++v) {
    vertex.push_back(static_cast<VertexIndex>(v) - gone);
  }
  const auto is_gpu = [&](VertexIndex end) { return end < static_cast<VertexIndex>(gpus.devices.size()); };
  for (Link link : gpus.links) {
    if (!is_gpu(link.a) && !is_gpu(link.b)) share(link, static_cast<double>(degree));
    link.a = vertex[at(link.a)];
    link.b = vertex[at(link.b)];
    if (link.a != kNone && link.b != kNone) groups.links.push_back(std::move(link));
  }
  groups.finish();
  return groups;
}

}  // namespace motley
