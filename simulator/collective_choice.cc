#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "simulator/collective.h"

namespace motley {
namespace {

bool over_gloo(std::span<const DeviceIndex> members, const Cluster& cluster) {
  return std::ranges::any_of(members, [&](DeviceIndex member) { return cluster.devices[member].is_cpu(); });
}

// NCCL's figures (src/graph/tuning.cc at commit b647562): microseconds, protocols LL and Simple, and how its bandwidth
// falls short.
enum Way : std::size_t { kNvlink, kPci, kNet };
struct Protocol {
  double tree_base, ring_base;
  std::array<double, 3> tree, ring;     // latency of a hop by Way
  double tree_share, ring_share;        // of the bandwidth
  std::array<double, 23> tree_by_size;  // a further share, for 64 B, 128 B, ... 256 MiB
};
constexpr Protocol kLowLatency{
    6.8, 6.6, {0.6, 1.0, 5.0}, {0.6, 1.0, 2.7}, 0.92 / 3.8, 1.0 / 4.0, {1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                                                        .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1}};
constexpr Protocol kSimple{
    0, 8.4, {28, 28, 28}, {3.4, 5.7, 14.0}, 0.92, 1.0, {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                                        .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

// What crosses nodes goes over the network; what passes the host goes over PCI.
Way way_of(const Cluster& cluster, DeviceIndex from, DeviceIndex to) {
  if (cluster.devices[from].node != cluster.devices[to].node) return kNet;
  const VertexIndex host = cluster.vertex_of_node(cluster.devices[from].node);
  for (const ChannelIndex channel : cluster.route(from, to)) {
    const Link& link = cluster.links[channel / 2];
    if (link.a == host || link.b == host) return kPci;
  }
  return kNvlink;
}

bool tree_is_faster(const CollectiveRequest& request, const Cluster& cluster) {
  const auto n = static_cast<double>(request.members.size());
  double width = std::numeric_limits<double>::infinity();
  double crossings = 0;
  Way inside = kNvlink;
  for (std::size_t m = 0; m < request.members.size(); ++m) {
    const DeviceIndex from = request.members[m];
    const DeviceIndex to = request.members[(m + 1) % request.members.size()];
    width = std::min(width, cluster.bandwidth(from, to).value);
    const Way way = way_of(cluster, from, to);
    if (way == kNet) ++crossings;
    if (way == kPci) inside = kPci;
  }
  const double nodes = std::max(1.0, crossings);
  const double log_nodes = std::floor(std::log2(nodes));
  const auto size = static_cast<std::size_t>(std::max(request.bytes / 64, 1.0));
  const auto power = static_cast<std::size_t>(std::bit_width(size) - 1);
  double tree = std::numeric_limits<double>::infinity();
  double ring = tree;
  for (const Protocol* protocol : {&kLowLatency, &kSimple}) {
    const double share = power < protocol->tree_by_size.size() ? protocol->tree_by_size[power] : 1;
    const double tree_hops = (n / nodes - 1) * protocol->tree[inside] + log_nodes * protocol->tree[kNet];
    const double tree_latency = protocol->tree_base + 2 * tree_hops;
    tree = std::min(tree, tree_latency * 1e-6 + request.bytes / (width * protocol->tree_share * 0.5 * share));
    const double far = nodes > 1 ? 2 * nodes : 0;
    const double post = nodes > 1 ? (protocol == &kSimple ? 3.0 : 1.0) : 0;  // a network message's, on the host
    const double near_latency = std::max(protocol->ring[inside], post);
    double ring_latency = protocol->ring_base + (2 * (n - 1) - far) * near_latency + far * protocol->ring[kNet];
    if (protocol == &kSimple && nodes > 1 && request.bytes / n >= 64) ring_latency *= 1.9;
    ring = std::min(ring, ring_latency * 1e-6 + request.bytes / (width * protocol->ring_share * n / (2 * (n - 1))));
  }
  return tree < ring;
}

}  // namespace

CollectiveAlgorithm choose_collective(const CollectiveRequest& request, const Cluster& cluster) {
  if (request.kind == CollectiveKind::kAllToAll) return CollectiveAlgorithm::kPairwise;
  if (over_gloo(request.members, cluster)) {
    return request.kind == CollectiveKind::kBroadcast ? CollectiveAlgorithm::kBinomialTree : CollectiveAlgorithm::kRing;
  }
  const bool all_reduce = request.kind == CollectiveKind::kAllReduce;
  const bool tree = all_reduce && request.members.size() > 1 && tree_is_faster(request, cluster);
  return tree ? CollectiveAlgorithm::kTree : CollectiveAlgorithm::kRing;
}

std::vector<DeviceIndex> ring_order(const std::vector<DeviceIndex>& members, const Cluster& cluster) {
  if (over_gloo(members, cluster)) return {members.rbegin(), members.rend()};
  return members;
}

std::vector<CollectiveStep> all_reduce_steps(const std::vector<DeviceIndex>& members, double bytes,
                                             const Cluster& cluster, const StepTime& step_time) {
  const std::vector<DeviceIndex> order = ring_order(members, cluster);
  const CollectiveRequest request{CollectiveKind::kAllReduce, order, bytes};
  return collective_steps(request, choose_collective(request, cluster), cluster, step_time);
}

}  // namespace motley
