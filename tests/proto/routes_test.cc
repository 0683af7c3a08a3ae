#include "proto/routes.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "proto/cluster.h"

namespace motley {
namespace {

using testing::ElementsAre;

void join(Cluster& cluster, VertexIndex a, VertexIndex b, double bandwidth) {
  cluster.links.push_back({"", a, b, BytesPerSecond(bandwidth), Seconds(1), true});
}

// The least number of links between two devices by Floyd and Warshall, and the greatest width among such ways: the
// definition, written down once more.
struct Best {
  int hops;
  double width;
};
std::vector<std::vector<Best>> best_ways(const Cluster& cluster) {
  const std::size_t n = cluster.devices.size() + cluster.nodes.size() + cluster.switches.size();
  std::vector<std::vector<Best>> best(n, std::vector<Best>(n, {1000, 0}));
  const auto take = [](Best& old, Best candidate) {
    const bool wider = candidate.hops == old.hops && candidate.width > old.width;
    if (candidate.hops < old.hops || wider) old = candidate;
  };
  for (const Link& link : cluster.links) {
    take(best[link.a][link.b], {1, link.bandwidth.value});
    take(best[link.b][link.a], {1, link.bandwidth.value});
  }
  for (std::size_t via = cluster.devices.size(); via < n; ++via) {
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (a == b) continue;
        const Best& to = best[a][via];
        const Best& from = best[via][b];
        take(best[a][b], {to.hops + from.hops, std::min(to.width, from.width)});
      }
    }
  }
  return best;
}

// Trees of switches with some links more, hosts at one or two switches, devices joined to their host and to each other.
Cluster random_cluster(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Cluster cluster;
  const int nodes = 2 + below(5);
  const int switches = 1 + below(5);
  for (int s = 0; s < switches; ++s) cluster.switches.push_back("s" + std::to_string(s));
  for (int n = 0; n < nodes; ++n) {
    cluster.nodes.push_back({"n" + std::to_string(n), {}});
    for (int d = below(3); d >= 0; --d) cluster.devices.push_back({"", "T4", n, Bytes(1)});
  }
  const auto width = [&] { return static_cast<double>(1 + below(8)); };
  for (int s = 1; s < switches; ++s) {
    join(cluster, cluster.vertex_of_switch(s), cluster.vertex_of_switch(below(s)), width());
  }
  for (int more = below(4); more > 0 && switches > 1; --more) {
    const int s = 1 + below(switches - 1);
    join(cluster, cluster.vertex_of_switch(s), cluster.vertex_of_switch(below(s)), width());
  }
  for (int n = 0; n < nodes; ++n) {
    for (int link = below(2); link >= 0; --link) {
      join(cluster, cluster.vertex_of_node(n), cluster.vertex_of_switch(below(switches)), width());
    }
  }
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    join(cluster, static_cast<VertexIndex>(d), cluster.vertex_of_node(cluster.devices[d].node), width());
    if (d > 0 && below(3) == 0) join(cluster, static_cast<VertexIndex>(d), static_cast<VertexIndex>(d - 1), width());
  }
  cluster.finish();
  return cluster;
}

TEST(Routes, AreTheShortestAndOfTheseTheWidest) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Cluster cluster = random_cluster(random);
    const auto best = best_ways(cluster);
    for (DeviceIndex from = 0; from < static_cast<DeviceIndex>(cluster.devices.size()); ++from) {
      for (DeviceIndex to = 0; to < static_cast<DeviceIndex>(cluster.devices.size()); ++to) {
        if (from == to) continue;
        const std::vector<ChannelIndex> route = cluster.route(from, to);
        VertexIndex at = from;
        for (const ChannelIndex channel : route) {
          const Link& link = cluster.links[channel / 2];
          ASSERT_EQ(at, channel % 2 == 0 ? link.a : link.b) << "round " << round;
          at = channel % 2 == 0 ? link.b : link.a;
        }
        ASSERT_EQ(at, to);
        ASSERT_EQ(static_cast<int>(route.size()), best[from][to].hops) << "round " << round;
        ASSERT_EQ(cluster.bandwidth(from, to).value, best[from][to].width) << "round " << round;
      }
    }
  }
}

// 10,000 devices, 8 to a node with a crossbar of their own, 40 nodes to a rack, all racks at one core.
TEST(Routes, OfTenThousandDevices) {
  constexpr int kNodes = 1250;
  Cluster cluster;
  for (int d = 0; d < 8 * kNodes; ++d) cluster.devices.push_back({"", "T4", d / 8, Bytes(1)});
  for (int n = 0; n < kNodes; ++n) cluster.nodes.push_back({"n" + std::to_string(n), {}});
  cluster.switches = {"core"};
  for (int rack = 0; rack * 40 < kNodes; ++rack) cluster.switches.push_back("rack" + std::to_string(rack));
  const auto racks = static_cast<int>(cluster.switches.size()) - 1;
  for (int n = 0; n < kNodes; ++n) cluster.switches.push_back("n" + std::to_string(n) + "-nvlink");
  for (int d = 0; d < 8 * kNodes; ++d) {
    join(cluster, d, cluster.vertex_of_node(d / 8), 10);                 // link 2 d
    join(cluster, d, cluster.vertex_of_switch(1 + racks + d / 8), 100);  // link 2 d + 1
  }
  for (int n = 0; n < kNodes; ++n) join(cluster, cluster.vertex_of_node(n), cluster.vertex_of_switch(1 + n / 40), 5);
  for (int r = 0; r < racks; ++r) join(cluster, cluster.vertex_of_switch(1 + r), cluster.vertex_of_switch(0), 50);
  cluster.finish();
  const ChannelIndex node_links = 2 * 2 * 8 * kNodes;
  const ChannelIndex rack_links = node_links + 2 * kNodes;
  EXPECT_THAT(cluster.route(0, 7), ElementsAre(2 * 1, 2 * 15 + 1)) << "two links by the crossbar, wider than the host";
  EXPECT_THAT(cluster.route(0, 8), ElementsAre(0, node_links, node_links + 2 + 1, 2 * 16 + 1)) << "in the rack";
  EXPECT_THAT(cluster.route(9999, 0),
              ElementsAre(2 * 2 * 9999, node_links + 2 * 1249, rack_links + 2 * 31, rack_links + 1, node_links + 1, 1));
}

}  // namespace
}  // namespace motley
