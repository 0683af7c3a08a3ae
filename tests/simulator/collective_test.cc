#include "simulator/collective.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>

#include "base/error.h"
#include "simulator/flow.h"

namespace motley {
namespace {

using enum CollectiveKind;
using Algorithm = CollectiveAlgorithm;

// `count` devices, `per_node` on each node; each sends and receives at 2 B/s, its node and the switch are no
// bottleneck.
Cluster machine(int count, int per_node, const std::string& kind = "T4", double rate = 2) {
  Cluster cluster;
  cluster.switches = {"tor"};
  for (int d = 0; d < count; ++d) cluster.devices.push_back({"", kind, d / per_node, Bytes(1)});
  for (int n = 0; n < (count + per_node - 1) / per_node; ++n) cluster.nodes.push_back({"n" + std::to_string(n), {}});
  for (int d = 0; d < count; ++d) {
    cluster.links.push_back({"", d, cluster.vertex_of_node(d / per_node), BytesPerSecond(rate), Seconds(0), true});
  }
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    cluster.links.push_back({"", cluster.vertex_of_node(static_cast<std::int32_t>(n)), cluster.vertex_of_switch(0),
                             BytesPerSecond(rate * 100 * per_node), Seconds(0), true});
  }
  cluster.finish();
  return cluster;
}

std::vector<DeviceIndex> all(const Cluster& cluster) {
  std::vector<DeviceIndex> members(cluster.devices.size());
  std::iota(members.begin(), members.end(), 0);
  return members;
}

std::vector<CollectiveStep> steps_of(CollectiveKind kind, Algorithm algorithm, const Cluster& cluster, double bytes) {
  const std::vector<DeviceIndex> members = all(cluster);
  return collective_steps({kind, members, bytes}, algorithm, cluster,
                          [](DeviceIndex, DeviceIndex, double) { return Seconds(3); });
}

double seconds_of(const std::vector<CollectiveStep>& steps, const Cluster& cluster) {
  FlowNetwork network(cluster);
  std::deque<std::vector<ChannelIndex>> routes;
  double now = 0;
  for (const CollectiveStep& step : steps) {
    now += step.fixed.value;
    for (const CollectiveHop& hop : step.hops) {
      network.start(Seconds(now), routes.emplace_back(cluster.route(hop.from, hop.to)), hop.bytes, 0);
    }
    for (std::size_t flow = 0; flow < step.hops.size(); ++flow) {
      now = network.next_end().value;
      network.end_next();
    }
  }
  return now;
}

std::map<DeviceIndex, double> sent(const std::vector<CollectiveStep>& steps) {
  std::map<DeviceIndex, double> bytes;
  for (const CollectiveStep& step : steps) {
    for (const CollectiveHop& hop : step.hops) bytes[hop.from] += hop.bytes;
  }
  return bytes;
}

TEST(Collectives, StepsAgreeWithTheClosedForms) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kBinomialTree,
                                    Algorithm::kHalvingDoubling, Algorithm::kHierarchical, Algorithm::kPairwise}) {
    for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kAllToAll}) {
      if (!runs(algorithm, kind)) continue;
      for (const int n : {1, 2, 3, 4, 5, 7, 8, 12, 16, 33}) {
        const bool power = (n & (n - 1)) == 0;
        if (algorithm == Algorithm::kHalvingDoubling && kind != kAllReduce && !power) continue;
        const Cluster cluster = machine(n, 1);
        const double steps = seconds_of(steps_of(kind, algorithm, cluster, 840), cluster);
        const Seconds form = collective_closed_form(kind, algorithm, n, 840, Seconds(3), BytesPerSecond(2));
        EXPECT_NEAR(steps, form.value, 1e-9 * form.value)
            << "algorithm " << static_cast<int>(algorithm) << ", kind " << static_cast<int>(kind) << ", " << n;
      }
    }
  }
}

TEST(Collectives, HierarchicalStepsAgreeWithTheClosedForm) {
  for (const int nodes : {1, 2, 3, 6}) {
    for (const int per_node : {1, 2, 4}) {
      const Cluster cluster = machine(nodes * per_node, per_node);
      const double steps = seconds_of(steps_of(kAllReduce, Algorithm::kHierarchical, cluster, 840), cluster);
      const Seconds form = collective_closed_form(kAllReduce, Algorithm::kHierarchical, cluster.devices.size(), 840,
                                                  Seconds(3), BytesPerSecond(2), per_node);
      EXPECT_NEAR(steps, form.value, 1e-9 * form.value) << nodes << " x " << per_node;
    }
  }
}

// Patarasuk, Yuan 2009, section 3: no all-reduce sends less than 2(n-1)/n S a member; these reach it. Thakur et al.
// 2005, table 1: (n-1)/n S for reduce-scatter and all-gather.
TEST(Collectives, RingsAndHalvingDoublingSendAsLittleAsCanBe) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kHalvingDoubling}) {
    for (const int n : {2, 4, 8}) {
      const Cluster cluster = machine(n, 1);
      for (const auto& [kind, ways] : {std::pair{kAllReduce, 2}, {kReduceScatter, 1}, {kAllGather, 1}}) {
        const auto bytes = sent(steps_of(kind, algorithm, cluster, 80));
        ASSERT_EQ(bytes.size(), static_cast<std::size_t>(n));
        for (const auto& [device, total] : bytes) EXPECT_DOUBLE_EQ(total, ways * 80.0 * (n - 1) / n) << device;
      }
    }
  }
}

// In the two trees together nobody sends more than twice the vector (Sanders et al. 2009, section 3), and all the
// sending is that of two trees' edges, up and down.
TEST(Collectives, TheDoubleTreeLoadsNobodyTwice) {
  for (const int n : {2, 3, 6, 9, 16, 31}) {
    double total = 0;
    for (const auto& [device, bytes] : sent(steps_of(kAllReduce, Algorithm::kTree, machine(n, 1), 10))) {
      EXPECT_LE(bytes, 20) << device << " of " << n;
      total += bytes;
    }
    EXPECT_DOUBLE_EQ(total, 2 * 2 * (n - 1) * 5);
  }
}

// Two nodes of 3: their first members are joined by both trees, each with half of 12 B both ways; the others hang in a
// chain: 12 B both ways over each of its 2 edges a node. Fixed: up and down, 1 level and 2 chain edges of 3 s: 18.
TEST(Collectives, TheTreeChainsTheMembersOfANode) {
  const std::vector<CollectiveStep> steps = steps_of(kAllReduce, Algorithm::kTree, machine(6, 3), 12);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_DOUBLE_EQ(steps[0].fixed.value, 18);
  const auto bytes = sent(steps);
  const std::map<DeviceIndex, double> expected{{0, 24}, {1, 24}, {2, 12}, {3, 24}, {4, 24}, {5, 12}};
  EXPECT_EQ(bytes, expected);
}

TEST(Collectives, NodesOfUnlikeSizeReduceToTheirFirst) {
  // 3 and 2 members: chains of 12 B to 0 and 3, a ring of 2(2-1)/2 * 12 = 12 B each way, chains back.
  const auto bytes = sent(steps_of(kAllReduce, Algorithm::kHierarchical, machine(5, 3), 12));
  const std::map<DeviceIndex, double> expected{{0, 24}, {1, 24}, {2, 12}, {3, 24}, {4, 12}};
  EXPECT_EQ(bytes, expected);
}

TEST(Collectives, ALinkHalfAsFastDecidesTheRing) {
  Cluster cluster = machine(4, 1);
  cluster.links[1].bandwidth = BytesPerSecond(1);
  cluster.finish();
  // 2 * 3/4 * 40 = 60 B over each edge at 1 B/s, after 6 steps of 3 s.
  EXPECT_DOUBLE_EQ(seconds_of(steps_of(kAllReduce, Algorithm::kRing, cluster, 40), cluster), 18 + 60);
}

// A message of 4 B gets 1 B/s, one of 16 B the whole 2 B/s; 8 B lies half way in the logarithm.
TEST(Collectives, MessagesThatAreSmallLoseWhatTheCurveSays) {
  Cluster cluster = machine(2, 1);
  cluster.links[0].curve = {{Bytes(4), BytesPerSecond(1)}, {Bytes(16), BytesPerSecond(2)}};
  cluster.finish();
  EXPECT_DOUBLE_EQ(cluster.shortfall(cluster.route(0, 1), 2).value, 2.0 / 1 - 2.0 / 2);
  EXPECT_DOUBLE_EQ(cluster.shortfall(cluster.route(0, 1), 8).value, 8.0 / 1.5 - 8.0 / 2);
  EXPECT_DOUBLE_EQ(cluster.shortfall(cluster.route(1, 0), 99).value, 0);
  const std::vector<DeviceIndex> members = all(cluster);
  const auto steps = collective_steps(
      {kAllReduce, members, 8}, Algorithm::kRing, cluster,
      [&](DeviceIndex a, DeviceIndex b, double n) { return cluster.shortfall(cluster.route(a, b), n); });
  // Two steps of 4 B at 1 B/s.
  EXPECT_DOUBLE_EQ(seconds_of(steps, cluster), 8);
}

TEST(Collectives, GlooRingsBackwardsAtEverySize) {
  const Cluster cluster = machine(64, 1, "cpu@0.5", 1e9);
  const std::vector<DeviceIndex> members{3, 5, 9};
  EXPECT_EQ(ring_order(members, cluster), (std::vector<DeviceIndex>{9, 5, 3}));
  for (const double bytes : {4.0, 1e4, 1e9}) {
    EXPECT_EQ(choose_collective({kAllReduce, all(cluster), bytes}, cluster), Algorithm::kRing);
  }
  EXPECT_EQ(choose_collective({kBroadcast, members, 4}, cluster), Algorithm::kBinomialTree);
  EXPECT_EQ(choose_collective({kAllToAll, members, 4}, cluster), Algorithm::kPairwise);
}

// By NCCL's model, on 64 nodes of one GPU: 8 KiB by LL: the tree takes 6.8 + 2 * 6 * 5 = 66.8 us, the ring at least
// 6.6 + 126 * 2.7 us. 1 GiB at 10 GB/s by Simple: the tree 2^30 / (10 * 0.92 / 2 GB/s) = 233 ms, the ring
// 2^30 / (10 * 64/126 GB/s) = 211 ms + 128 * 14 us * 1.9 = 3.4 ms.
TEST(Collectives, NcclTakesTheTreeForSmallAndTheRingForLargeVectors) {
  const Cluster cluster = machine(64, 1, "T4", 10e9);
  const std::vector<DeviceIndex> members = all(cluster);
  EXPECT_EQ(ring_order(members, cluster), members);
  EXPECT_EQ(choose_collective({kAllReduce, members, 8192}, cluster), Algorithm::kTree);
  EXPECT_EQ(choose_collective({kAllReduce, members, 1 << 30}, cluster), Algorithm::kRing);
  EXPECT_EQ(choose_collective({kAllGather, members, 8192}, cluster), Algorithm::kRing);
}

TEST(Collectives, WhatAnAlgorithmDoesNotDoIsRefused) {
  const Cluster cluster = machine(4, 1);
  EXPECT_THROW(steps_of(kAllToAll, Algorithm::kRing, cluster, 1), Error);
  EXPECT_THROW(steps_of(kAllGather, Algorithm::kHalvingDoubling, machine(3, 1), 1), Error);
}

}  // namespace
}  // namespace motley
