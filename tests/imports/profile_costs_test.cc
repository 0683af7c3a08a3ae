#include "imports/profile_costs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "imports/layers.h"
#include "strategy/evaluate.h"

namespace motley {
namespace {

// Layer a takes the batch, so that its backward pass is its weight gradient; b's is its input gradient, and the weight
// gradient beside it takes no time more.
class ProfileCostsTest : public testing::Test {
 protected:
  ProfileCostsTest()
      : graph_(graph_of_layers("model", {{"a", {}, Bytes(4), Bytes(4)}, {"b", {0}, Bytes(4), Bytes(4)}})) {}

  ProfileCosts costs(std::vector<LayerTimes> times, LayerMemory memory = {}) const {
    ImportedDevice device;
    device.layers = {{times, memory}, {times, memory}};
    return {graph_, {device}, {0}};
  }
  OpCost of(const ProfileCosts& costs, const std::string& name, std::int64_t samples) const {
    const auto op = std::ranges::find(graph_.ops, name, &Op::name);
    return costs.op(static_cast<OpId>(op - graph_.ops.begin()), 0, samples);
  }

  Graph graph_;
};

TEST_F(ProfileCostsTest, EachOpHasItsPartOfTheProfile) {
  const ProfileCosts given =
      costs({{2, Seconds(3), Seconds(5), Seconds(7)}}, {.kept = Bytes(10), .workspace = Bytes(20)});
  EXPECT_EQ(of(given, "a", 2).time, Seconds(3));
  EXPECT_EQ(of(given, "a", 2).kept, Bytes(20));
  EXPECT_EQ(of(given, "a", 2).workspace, Bytes(40));
  EXPECT_EQ(of(given, "a.dw", 2).time, Seconds(5));
  EXPECT_EQ(of(given, "b.dx", 2).time, Seconds(5));
  EXPECT_EQ(of(given, "b.dw", 2).time, Seconds(0));
  EXPECT_EQ(of(given, "b.update", 2).time, Seconds(7));
  EXPECT_EQ(of(given, "loss", 2).time, Seconds(0));
  EXPECT_TRUE(of(given, "a", 2).measured);
  EXPECT_FALSE(of(given, "a", 3).measured);
}

TEST_F(ProfileCostsTest, TimesAreLinearBetweenAndBeyondPoints) {
  const ProfileCosts given = costs({{2, Seconds(3), {}, {}}, {4, Seconds(5), {}, {}}, {8, Seconds(13), {}, {}}});
  EXPECT_EQ(of(given, "a", 1).time, Seconds(3));  // bound by launches, as far as one knows
  EXPECT_EQ(of(given, "a", 3).time, Seconds(4));
  EXPECT_EQ(of(given, "a", 6).time, Seconds(9));
  EXPECT_EQ(of(given, "a", 10).time, Seconds(17));
}

TEST_F(ProfileCostsTest, ATimeNeverFallsWithMoreSamples) {
  const ProfileCosts given = costs({{1, Seconds(4), {}, {}}, {2, Seconds(3), {}, {}}, {4, Seconds(6), {}, {}}});
  EXPECT_EQ(of(given, "a", 1).time, Seconds(3));
  EXPECT_EQ(of(given, "a", 2).time, Seconds(3));
  EXPECT_EQ(of(given, "a", 4).time, Seconds(6));
}

// Two stages, between which a message of 4 B takes 1 s: with three micro-batches ahead the first would wait less. They
// are 2 MB each, and of 8 MB there is room for two, beside the 3 MB that an op needs while it runs.
TEST(ProfiledPipelineTest, GoesNoDeeperThanWorkspacesAllow) {
  const Graph graph = graph_of_layers("model", {{"a", {}, Bytes(4), Bytes(4), 0}, {"b", {0}, Bytes(4), Bytes(4), 0}});
  LayerCost layer;
  layer.times = {{1, Seconds(1), Seconds(2), Seconds(0)}};
  layer.memory = {.kept = Bytes(2'000'000), .workspace = Bytes(3'000'000)};
  ImportedDevice device;
  device.layers = {layer, layer};
  const Cluster cluster = parse_cluster(
      "nodes: [{name: n, devices: {kind: x, count: 2, memory: 8MB}, peer: {bandwidth: 4B/s, latency: 0s}}]", "cluster",
      nullptr);
  const ProfileCosts costs(graph, {device}, {0, 0});
  Strategy strategy;
  strategy.micro_batches = 8;
  GroupDecision first, second;
  first.shares = {{0, 1.0}};
  second.shares = {{1, 1.0}};
  second.stage = 1;
  strategy.groups = {first, second};
  const Evaluation evaluation = Evaluator(graph, cluster, costs, 8).evaluate(strategy);
  EXPECT_TRUE(evaluation.feasible()) << testing::PrintToString(evaluation.reasons());
}

}  // namespace
}  // namespace motley
