#include "simulator/flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

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

TEST_F(FlowNetworkTest, FlowThreeOfTheWorkedSystemEnds) {
  FlowNetwork network(links({10, 4, 9}));
  const std::vector<std::vector<ChannelIndex>> routes = {{0}, {0, 2}, {2, 4}, {4}};
  for (std::int32_t f = 0; f < 4; ++f) network.start(Seconds(0), routes[f], f == 2 ? 10 : 1000, f);
  EXPECT_DOUBLE_EQ(network.next_end().value, 5);  // 10 B at 2 B/s
  EXPECT_EQ(network.end_next(), 2);
  EXPECT_DOUBLE_EQ(network.rate(0).value, 6);
  EXPECT_DOUBLE_EQ(network.rate(1).value, 4);
  EXPECT_DOUBLE_EQ(network.rate(3).value, 9);
  for (ChannelIndex channel = 0; channel < 3; ++channel) {
    EXPECT_DOUBLE_EQ(network.load(2 * channel).value, std::vector<double>({10, 4, 9})[channel]);
  }
}

TEST_F(FlowNetworkTest, FlowsThatStartAndEndTogetherShareEvenly) {
  FlowNetwork network(links({8}));
  const std::vector<ChannelIndex> route = {0};
  for (std::int32_t f = 0; f < 4; ++f) network.start(Seconds(1), route, 6, f);
  for (std::int32_t f = 0; f < 4; ++f) {
    EXPECT_DOUBLE_EQ(network.next_end().value, 4);  // 6 B at 8/4 B/s
    EXPECT_EQ(network.end_next(), f);
  }
  EXPECT_EQ(network.next_end().value, kNever);
}

// Flows over a network of some shape start and end at random, up to `most` of them at once, several at a time.
struct Shape {
  const char* name;
  int channels;
  int most;
  int longest;        // channels of a route
  bool one_capacity;  // ties everywhere
};

class RandomFlowsTest : public ::testing::TestWithParam<std::tuple<Shape, int>> {
 protected:
  RandomFlowsTest() {
    const Shape& shape = std::get<0>(GetParam());
    for (int c = 0; c < shape.channels; ++c) {
      const double capacity = shape.one_capacity ? 12 : 1 + static_cast<double>(random_() % 1000) / 10;
      cluster_.links.push_back({"", 0, 1, BytesPerSecond(capacity), Seconds(0), true});
    }
    for (int f = 0; f < kFlows; ++f) {
      std::set<ChannelIndex> channels;
      const auto hops = 1 + random_() % shape.longest;
      while (channels.size() < hops) channels.insert(2 * static_cast<ChannelIndex>(random_() % shape.channels));
      routes_.emplace_back(channels.begin(), channels.end());
    }
  }

  // What defines the rates: no channel is over its capacity, and every flow crosses a full one on which none is faster.
  void expect_max_min_fair(FlowNetwork& network, const std::vector<std::int32_t>& running) {
    std::vector<double> load(cluster_.channel_count(), 0), fastest(cluster_.channel_count(), 0);
    std::map<std::int32_t, double> rates;
    for (std::int32_t flow : running) {
      rates[flow] = network.rate(flow).value;
      for (ChannelIndex channel : routes_[flow]) {
        load[channel] += rates[flow];
        fastest[channel] = std::max(fastest[channel], rates[flow]);
      }
    }
    for (ChannelIndex channel = 0; channel < cluster_.channel_count(); ++channel) {
      ASSERT_LE(load[channel], cluster_.bandwidth(channel).value * (1 + kSame));
      ASSERT_NEAR(network.load(channel).value, load[channel], kSame * cluster_.bandwidth(channel).value);
    }
    for (std::int32_t flow : running) {
      ASSERT_TRUE(std::any_of(routes_[flow].begin(), routes_[flow].end(), [&](ChannelIndex channel) {
        const bool full = load[channel] >= cluster_.bandwidth(channel).value * (1 - kSame);
        return full && rates[flow] >= fastest[channel] * (1 - kSame);
      }));
    }
  }

  static constexpr int kFlows = 300;
  static constexpr double kSame = 1e-11;
  std::mt19937 random_{static_cast<std::uint32_t>(std::get<1>(GetParam()))};
  Cluster cluster_;
  std::vector<std::vector<ChannelIndex>> routes_;
};

TEST_P(RandomFlowsTest, AreMaxMinFairAtEveryTimeAndAllBytesArrive) {
  const auto most = static_cast<std::size_t>(std::get<0>(GetParam()).most);
  FlowNetwork network(cluster_);
  std::vector<std::int32_t> running;
  std::vector<double> bytes(kFlows), arrived(kFlows, 0);
  double now = 0;
  for (std::int32_t next = 0; next < kFlows || !running.empty();) {
    const double before = now;
    std::map<std::int32_t, double> rates;
    for (std::int32_t flow : running) rates[flow] = network.rate(flow).value;
    // A time between here and the next end; or the next end.
    const bool ends = next == kFlows || running.size() == most || random_() % 2 == 0;
    const double end = network.next_end().value;
    if (ends && !running.empty()) {
      now = end;
    } else if (!running.empty()) {
      now += (end - now) * static_cast<double>(random_() % 4) / 4;
    }
    for (std::int32_t flow : running) arrived[flow] += rates[flow] * (now - before);
    while (!running.empty() && network.next_end().value <= now) {
      const std::int32_t ended = network.end_next();
      ASSERT_NEAR(arrived[ended], bytes[ended], 1e-9 * bytes[ended]);
      running.erase(std::find(running.begin(), running.end(), ended));
    }
    for (auto starts = random_() % 4; starts > 0 && next < kFlows && running.size() < most; --starts, ++next) {
      bytes[next] = 1 + static_cast<double>(random_() % 100);
      network.start(Seconds(now), routes_[next], bytes[next], next);
      running.push_back(next);
    }
    expect_max_min_fair(network, running);
  }
  for (ChannelIndex channel = 0; channel < cluster_.channel_count(); ++channel) {
    double carried = 0;
    for (int f = 0; f < kFlows; ++f) carried += std::ranges::count(routes_[f], channel) * bytes[f];
    EXPECT_NEAR(network.carried(channel), carried, 1e-9 * carried);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RandomFlowsTest,
    ::testing::Combine(::testing::Values(Shape{"Dense", 6, 20, 4, false}, Shape{"Sparse", 60, 40, 3, false},
                                         Shape{"Crowded", 12, 200, 5, false}, Shape{"Ties", 20, 30, 3, true},
                                         Shape{"OneChannel", 1, 10, 1, false}),
                       ::testing::Range(0, 10)),
    [](const auto& test) { return std::get<0>(test.param).name + std::to_string(std::get<1>(test.param)); });

}  // namespace
}  // namespace motley
