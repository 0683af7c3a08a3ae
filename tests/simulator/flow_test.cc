#include "simulator/flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace motley {
namespace {

// Links of the given capacities between pairs of devices that nothing else joins: channel 2 * i is link i's way out.
class FlowNetworkTest : public ::testing::Test {
 protected:
  static Cluster links(const std::vector<double>& capacities) {
    Cluster cluster;
    for (double capacity : capacities) {
      cluster.links.push_back({"", 0, 1, BytesPerSecond(capacity), Seconds(0), true});
    }
    return cluster;
  }
  static constexpr double kNever = std::numeric_limits<double>::infinity();
};

TEST_F(FlowNetworkTest, SolvesTheWorkedSystemOfTheHeader) {
  FlowNetwork network(links({10, 4, 9}));
  const std::vector<std::vector<ChannelIndex>> routes = {{0}, {0, 2}, {2, 4}, {4}};
  for (std::int32_t f = 0; f < 4; ++f) network.start(Seconds(0), routes[f], 100, f);
  EXPECT_DOUBLE_EQ(network.rate(0).value, 8);
  EXPECT_DOUBLE_EQ(network.rate(1).value, 2);
  EXPECT_DOUBLE_EQ(network.rate(2).value, 2);
  EXPECT_DOUBLE_EQ(network.rate(3).value, 7);
}

TEST_F(FlowNetworkTest, AFlowAloneTakesItsBytesOverTheLeastCapacity) {
  FlowNetwork network(links({10, 4}));
  const std::vector<ChannelIndex> route = {0, 2};
  network.start(Seconds(3), route, 8, 7);
  EXPECT_DOUBLE_EQ(network.next_end().value, 5);  // 3 + 8 / 4
  EXPECT_EQ(network.end_next(), 7);
  EXPECT_EQ(network.next_end().value, kNever);
}

TEST_F(FlowNetworkTest, TheOtherFlowSpeedsUpWhenOneEnds) {
  FlowNetwork network(links({2}));
  const std::vector<ChannelIndex> route = {0};
  network.start(Seconds(0), route, 4, 0);
  network.start(Seconds(0), route, 10, 1);
  EXPECT_DOUBLE_EQ(network.next_end().value, 4);  // both at 1 B/s
  EXPECT_EQ(network.end_next(), 0);
  EXPECT_DOUBLE_EQ(network.next_end().value, 7);  // 6 bytes are left, at 2 B/s
}

TEST_F(FlowNetworkTest, AFlowOfNoBytesEndsAtOnce) {
  FlowNetwork network(links({1}));
  const std::vector<ChannelIndex> route = {0};
  network.start(Seconds(2), route, 0, 5);
  EXPECT_DOUBLE_EQ(network.next_end().value, 2);
  EXPECT_EQ(network.end_next(), 5);
}

// What defines max-min fairness: no channel is over its capacity, and every flow crosses a full channel on which none
// is faster.
TEST_F(FlowNetworkTest, RandomFlowsAreMaxMinFairAtEveryTime) {
  std::mt19937 random(1);
  const std::vector<double> capacities = {3, 5, 8, 13, 21, 34};
  FlowNetwork network(links(capacities));
  std::vector<std::vector<ChannelIndex>> routes;
  for (int f = 0; f < 300; ++f) {
    std::vector<ChannelIndex> route;
    for (ChannelIndex c = 0; c < 6; ++c) {
      if (random() % 3 == 0) route.push_back(2 * c);
    }
    if (route.empty()) route.push_back(0);
    routes.push_back(route);
  }
  std::vector<std::int32_t> running;
  double now = 0;
  for (std::int32_t f = 0; f < 300 || !running.empty();) {
    if (f < 300 && (running.size() < 4 || random() % 2 == 0)) {
      network.start(Seconds(now), routes[f], 1 + random() % 100, f);
      running.push_back(f++);
    } else {
      now = network.next_end().value;
      running.erase(std::find(running.begin(), running.end(), network.end_next()));
    }
    std::vector<double> load(12, 0), fastest(12, 0);
    for (std::int32_t g : running) {
      for (ChannelIndex c : routes[g]) {
        load[c] += network.rate(g).value;
        fastest[c] = std::max(fastest[c], network.rate(g).value);
      }
    }
    for (ChannelIndex c = 0; c < 12; c += 2) ASSERT_LE(load[c], capacities[c / 2] * (1 + 1e-12));
    for (std::int32_t g : running) {
      ASSERT_TRUE(std::any_of(routes[g].begin(), routes[g].end(), [&](ChannelIndex c) {
        return load[c] >= capacities[c / 2] * (1 - 1e-12) && network.rate(g).value >= fastest[c] * (1 - 1e-12);
      }));
    }
  }
}

}  // namespace
}  // namespace motley
