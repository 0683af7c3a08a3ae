#include "strategy/bound/bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/schedule/schedule.h"
#include "strategy/baselines.h"
#include "strategy/bound/linear_program.h"
#include "strategy/bound/traffic.h"
#include "strategy/pipelines.h"
#include "strategy/search/moves.h"
#include "tests/strategy/setting.h"

namespace motley {
namespace {

// An op's cost is a fixed part and one per sample up to a knee, from which it is cheaper; all differ by op and device.
class KneeCosts : public CostModel {
 public:
  OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override {
    const double fixed = 1e-5 * (1 + (op * 7 + device * 3) % 5), slope = 1e-6 * (1 + (op * 5 + device * 11) % 7);
    const auto samples = static_cast<double>(batch), knee = 3.0 + (op + device) % 9;
    OpCost cost;
    cost.time = Seconds(fixed + slope * (std::min(samples, knee) + 0.3 * std::max(0.0, samples - knee)));
    return cost;
  }
  Seconds memory_pass(DeviceIndex, Bytes bytes) const override { return bytes / BytesPerSecond(1e12); }
  MessageCosts messages(DeviceIndex) const override { return {}; }
  Bytes context(DeviceIndex) const override { return Bytes(0); }
};

class BoundTest : public ::testing::Test {
 protected:
  static LowerBound bound(const Setting& s) { return lower_bound(s.graph, s.cluster, s.costs, s.batch); }

  // No strategy that fits is simulated below the bound: no baseline, no pipeline that a search starts from, and none on
  // a random walk from each of some of them.
  static void expect_bound_holds(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch,
                                 int steps = 60) {
    const double least = lower_bound(graph, cluster, costs, batch).seconds().value;
    EXPECT_GT(least, 0);
    const Evaluator evaluator(graph, cluster, costs, batch);
    const auto expect_not_below = [&](const Evaluation& evaluation) {
      if (!evaluation.feasible()) return;
      ASSERT_GE(evaluation.simulation.iteration.value, least * (1 - 1e-9)) << evaluation.strategy.name;
    };
    std::vector<Evaluation> starts;
    std::vector<std::string> names = strategy_names(cluster);
    for (const std::string& schedule : schedule_names()) names.push_back("pp:" + schedule);
    for (const std::string& name : names) starts.push_back(evaluator.evaluate_baseline(name));
    for (const Strategy& start : pipeline_starts(evaluator)) starts.push_back(evaluator.evaluate(start));
    const Moves moves(evaluator, group_work(graph, cluster, costs, batch));
    std::mt19937_64 random(5);
    for (std::size_t s = 0; s < starts.size(); ++s) {
      expect_not_below(starts[s]);
      if (s % 5 > 0) continue;
      Evaluation current = std::move(starts[s]);
      current.strategy = in_samples(current.strategy, batch);
      for (int i = 0; i < steps; ++i) {
        current = evaluator.evaluate(moves.propose(current, random));
        expect_not_below(current);
      }
    }
  }
};

TEST_F(BoundTest, WorkOnProportionalDevicesIsTheIdeal) {
  const Setting setting({.layers = 6}, {1, 0.5, 0.25}, BytesPerSecond(1e9), 28);
  EXPECT_NEAR(bound(setting).seconds().value, setting.seconds_on_one() / 1.75, 1e-9);
}

// Costs are proportional, so work alone takes what one takes over the sum of speeds; links and paths can only add to
// it.
TEST_F(BoundTest, RowsOnlyRaiseIt) {
  for (const int layers : {12, 60}) {
    for (const double rate : {1e4, 1e5, 1e6, 1e7}) {
      const Setting setting({.layers = layers}, {1, 1, 0.6, 0.6, 0.3, 0.3}, BytesPerSecond(rate), 60);
      SCOPED_TRACE(std::to_string(layers) + " layers, " + std::to_string(rate) + " B/s");
      EXPECT_GE(bound(setting).seconds().value, setting.seconds_on_one() / 3.8 * (1 - 1e-6));
    }
  }
}

// Each device's part of the bound is its part of the speed: 4, 2 and 1 of 7.
TEST_F(BoundTest, SaysWhatHoldsItUp) {
  const Setting setting({.layers = 6}, {1, 0.5, 0.25}, BytesPerSecond(1e9), 28);
  const std::vector<LowerBound::Part> parts = bound(setting).parts;
  ASSERT_EQ(parts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parts[i].name, "compute of n" + std::to_string(i) + "/0");
    EXPECT_NEAR(parts[i].share, (i == 0 ? 4 : i == 1 ? 2 : 1) / 7.0, 1e-6);
  }
}

// 6 linear and 6 relu forwards, the mean, and the same backwards, for which no gradient of the model's input is made
// but that of the first weights: 26 ops of 1e-5 s, of one sample on one of many devices.
TEST_F(BoundTest, TheCriticalPathIsOneSampleThroughAllOps) {
  const Setting setting({.layers = 6}, std::vector<double>(64, 1), BytesPerSecond(1e9), 32);
  const LowerBound least = bound(setting);
  EXPECT_NEAR(least.seconds().value, 26e-5, 1e-10);
  EXPECT_EQ(least.parts.front().name, "critical path");
}

// Two layers and two devices; a layer takes one device a second and the other ten.
class HalvesTest : public BoundTest {
 protected:
  class Halves : public support::FixedCosts {
   public:
    using FixedCosts::FixedCosts;
    std::vector<GroupId> groups;  // by op
    OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override {
      OpCost cost = FixedCosts::op(op, device, batch);
      if (groups[static_cast<std::size_t>(op)] != device) cost.time = cost.time * 10;
      return cost;
    }
    std::int32_t cost_class(DeviceIndex device) const override { return device; }
  };
  static constexpr std::int64_t kBatch = 1000;
  // `bandwidth`: of the devices' links.
  LowerBound bound_with(BytesPerSecond bandwidth) const {
    const Cluster cluster = support::star_cluster(2, {bandwidth});
    Halves costs(graph_, {1, 1}, 0);
    for (const Op& op : graph_.ops) costs.groups.push_back(op.group);
    for (const char* name : {"l0.linear", "l1.linear"}) {
      costs.seconds_per_sample[static_cast<std::size_t>(support::op_named(graph_, name))] = 1.0 / kBatch;
    }
    return lower_bound(graph_, cluster, costs, kBatch);
  }
  const Graph graph_ = support::chain_graph({.layers = 2});
};

TEST_F(HalvesTest, OpsGoWhereTheyAreRelativelyFast) {
  EXPECT_NEAR(bound_with(BytesPerSecond(1e12)).seconds().value, 1, 1e-6);
}

// When a part p of each layer's samples is on the wrong device, that takes 1 + 9p seconds, and 1 - 2p of the samples
// cross, of 16 bytes each, there and back. If all took 4 s, both take as long at p = 3 / 17.
TEST_F(HalvesTest, WhatCrossesTakesTime) {
  const LowerBound least = bound_with(BytesPerSecond(16.0 * kBatch / 4));
  EXPECT_NEAR(least.seconds().value, 1 + 9 * 3.0 / 17, 1e-3);
  const auto links = [](const LowerBound::Part& part) { return part.name.starts_with("links of n"); };
  EXPECT_TRUE(std::ranges::any_of(least.parts, links));
}

// A layer of two takes 1 s on the one device, 10 s on the other, and the one has memory for no more than a layer.
TEST_F(BoundTest, WhatDoesNotFitTheFastDeviceRunsOnTheSlowOne) {
  Setting setting({.layers = 2, .width = 64}, {1, 0.1}, BytesPerSecond(1e12), 1000, Bytes(4 * (64 * 64 + 64)));
  setting.cluster.devices[1].memory = Bytes(1 << 30);
  for (double& seconds : setting.costs.seconds_per_sample) seconds = 0;
  for (const char* name : {"l0.linear", "l1.linear"}) {
    setting.costs.seconds_per_sample[static_cast<std::size_t>(support::op_named(setting.graph, name))] = 1e-3;
  }
  EXPECT_NEAR(bound(setting).seconds().value, 10, 1e-6);
  setting.cluster.devices[0].memory = Bytes(1 << 30);
  EXPECT_NEAR(bound(setting).seconds().value, 2 / 1.1, 1e-6);
}

TEST_F(BoundTest, NoStrategyBeatsItWithLinearCosts) {
  const Setting setting({.layers = 6, .width = 16, .residual = true}, {1, 0.5, 0.25}, BytesPerSecond(1e10), 40);
  expect_bound_holds(setting.graph, setting.cluster, setting.costs, setting.batch);
}

TEST_F(BoundTest, NoStrategyBeatsItWithCrookedCosts) {
  const Setting setting({.layers = 6, .width = 16, .tied = true}, {1, 1, 1}, BytesPerSecond(1e12), 40);
  expect_bound_holds(setting.graph, setting.cluster, KneeCosts(), setting.batch);
}

// Models, machines and costs by chance: links from those that carry nothing in time to those that do not matter,
// devices that are alike and not, memories that hold a part of the model.
TEST_F(BoundTest, NoStrategyBeatsItOnAnyCluster) {
  std::mt19937_64 random(11);
  const auto one_of = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
  for (int i = 0; i < 12; ++i) {
    support::ChainOptions chain;
    chain.layers = 3 + static_cast<int>(random() % 6);
    chain.width = static_cast<std::int64_t>(one_of({4, 16, 64}));
    chain.residual = random() % 2 == 0;
    chain.tied = random() % 3 == 0;
    chain.shared = random() % 4 == 0;
    chain.balance = random() % 6 == 0;
    chain.momentum = one_of({0, 0.9});
    std::vector<double> speeds(2 + random() % 3);
    for (double& speed : speeds) speed = one_of({1, 1, 0.5, 0.1});
    const auto samples = static_cast<std::int64_t>(one_of({5, 16, 40}));
    Setting setting(chain, speeds, BytesPerSecond(one_of({1e5, 1e6, 1e7, 1e9})), samples);
    setting.costs.memory_rate = BytesPerSecond(one_of({1e8, 1e12}));
    for (double& seconds : setting.costs.seconds_per_sample) seconds *= one_of({0.2, 1, 3});
    const auto layer = static_cast<double>(chain.width * chain.width * 8);
    for (Device& device : setting.cluster.devices) {
      if (random() % 3 == 0) device.memory = Bytes(static_cast<std::int64_t>(layer * one_of({3, 6, 20})));
    }
    SCOPED_TRACE(i);
    if (bound(setting).never_fits) continue;
    expect_bound_holds(setting.graph, setting.cluster, setting.costs, setting.batch, 30);
  }
}

TEST_F(BoundTest, WhatAGroupHoldsMustFitADevice) {
  // A layer's weights and bias are 16,640 B: two devices of 24 KiB hold a layer each, and of 48 KiB and 12 KiB the one
  // holds both.
  Setting setting({.layers = 3, .width = 64}, {1, 1}, BytesPerSecond(1e9), 4, Bytes(24 << 10));
  EXPECT_TRUE(bound(setting).never_fits);
  for (const std::int64_t large : {48, 49}) {
    setting.cluster.devices[0].memory = Bytes(large << 10);
    setting.cluster.devices[1].memory = Bytes(12 << 10);
    EXPECT_EQ(bound(setting).never_fits.has_value(), large == 48);
  }
}

TEST(LinearProgramTest, SolvesATextbooksProgram) {
  // Wyndor Glass: maximise 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18. At x = 2, y = 6; the shadow prices are 0, 3/2
  // and 1 (Hillier, Lieberman: Introduction to Operations Research, chapter 3).
  LinearProgram program;
  const int x = program.add_column(-3, 0, LinearProgram::kInfinity);
  const int y = program.add_column(-5, 0, LinearProgram::kInfinity);
  const auto at_most = [&](std::vector<Term> terms, double most) {
    return program.add_row(terms, -LinearProgram::kInfinity, most);
  };
  const int rows[] = {at_most({{x, 1}}, 4), at_most({{y, 2}}, 12)};
  ASSERT_TRUE(program.solve());
  EXPECT_NEAR(program.value(y), 6, 1e-9);
  const int third = at_most({{x, 3}, {y, 2}}, 18);
  ASSERT_TRUE(program.solve());
  EXPECT_NEAR(program.value(x), 2, 1e-9);
  EXPECT_NEAR(program.value(y), 6, 1e-9);
  EXPECT_NEAR(program.dual(rows[0]), 0, 1e-9);
  EXPECT_NEAR(program.dual(rows[1]), -1.5, 1e-9);
  EXPECT_NEAR(program.dual(third), -1, 1e-9);
  at_most({{x, -1}, {y, -1}}, -100);
  EXPECT_FALSE(program.solve());
}

// The time T that the slowest of three machines needs for the parts x[g, c] of jobs that sum to 1, and rows added in
// rounds whose factors lie far apart. T is above 0, so its reduced cost is 0: the multipliers of the rows that it
// stands in sum to 1 (complementary slackness).
TEST(LinearProgramTest, MultipliersAreThoseOfTheProgramAsItIs) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-8, 0);
  constexpr int kJobs = 150;
  constexpr int kMachines = 3;
  LinearProgram program;
  const int time = program.add_column(1, 0, LinearProgram::kInfinity);
  for (int i = 0; i < kJobs * kMachines; ++i) program.add_column(0, 0, 1);
  for (int g = 0; g < kJobs; ++g) {
    program.add_row(std::vector<Term>{{1 + 3 * g, 1}, {2 + 3 * g, 1}, {3 + 3 * g, 1}}, 1, 1);
  }
  std::vector<int> rows;
  const auto add = [&](auto machine_of) {
    std::vector<Term> terms{{time, -1}};
    for (int g = 0; g < kJobs; ++g) {
      const double sign = rows.size() >= kMachines && random() % 2 == 0 ? -1 : 1;
      terms.push_back({1 + 3 * g + machine_of(g), sign * std::pow(10, exponent(random))});
    }
    rows.push_back(program.add_row(terms, -LinearProgram::kInfinity, 0));
  };
  for (int c = 0; c < kMachines; ++c) add([&](int) { return c; });
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(program.solve());
    double sum = 0;
    for (const int row : rows) sum -= program.dual(row);
    EXPECT_NEAR(sum, 1, 1e-6) << "round " << round;
    for (int i = 0; i < 6; ++i)
      add([&](int g) { return static_cast<int>((random() + static_cast<std::uint64_t>(g)) % 3); });
  }
}

TEST(TrafficTest, ACutIsTheNarrowestWayOut) {
  const Cluster cluster = support::star_cluster(3, {BytesPerSecond(5), BytesPerSecond(3), BytesPerSecond(7)});
  const auto rate = [&](std::vector<DeviceIndex> devices) { return cut_rate(cluster, devices).value; };
  EXPECT_DOUBLE_EQ(rate({1}), 3);
  EXPECT_DOUBLE_EQ(rate({0, 1}), 7);  // their links carry 8, the other's 7
  EXPECT_DOUBLE_EQ(rate({0, 2}), 3);
}

// Of two racks with two nodes of two devices each: the uplink of a rack, but of one of its devices that device's link.
TEST(TrafficTest, ACutMayLieAnywhere) {
  const Cluster cluster = parse_cluster(R"(
nodes:
  - {name: a, count: 2, devices: {kind: own, count: 2, memory: 1GiB}, peer: {bandwidth: 3GB/s, latency: 1us}}
  - {name: b, count: 2, devices: {kind: own, count: 2, memory: 1GiB}, peer: {bandwidth: 3GB/s, latency: 1us}}
switches: [rack-a, rack-b]
links:
  - {between: [a, rack-a], bandwidth: 4GB/s, latency: 1us}
  - {between: [b, rack-b], bandwidth: 4GB/s, latency: 1us}
  - {between: [rack-a, rack-b], bandwidth: 5GB/s, latency: 1us}
)",
                                        "racks", nullptr);
  const auto rate = [&](std::vector<DeviceIndex> devices) { return cut_rate(cluster, devices).value / 1e9; };
  EXPECT_DOUBLE_EQ(rate({0, 1, 2, 3}), 5);
  EXPECT_DOUBLE_EQ(rate({0, 1}), 4);
  EXPECT_DOUBLE_EQ(rate({0}), 3);
  EXPECT_DOUBLE_EQ(rate({0, 2}), 6);
}

TEST(TrafficTest, LayersExchangeSamplesAndGradients) {
  const Graph graph = support::chain_graph({.layers = 4, .width = 16, .residual = true});
  const std::vector<Exchange> all = exchanges(graph, 10);
  // 0 to 1, 1 to 2, 2 to 3; odd layers add what they take, which is one value for both uses.
  ASSERT_EQ(all.size(), 3U);
  for (std::size_t e = 0; e < all.size(); ++e) {
    const auto next = static_cast<GroupId>(e + 1);
    EXPECT_EQ(all[e].maker, next - 1);
    EXPECT_EQ(all[e].takers, std::vector<GroupId>{next});
    EXPECT_EQ(all[e].returners, std::vector<GroupId>{next});
    EXPECT_EQ(all[e].bytes, 10 * 16 * 4);
    EXPECT_EQ(all[e].gradient_bytes, 10 * 16 * 4);
  }
}

TEST_F(BoundTest, SaysWhenTheStateNeverFits) {
  const Setting fits({.layers = 2, .width = 64}, {1, 1}, BytesPerSecond(1e9), 4, Bytes(40 << 10));
  EXPECT_FALSE(bound(fits).never_fits);
  // Two weights of 64 x 64 floats and biases are 33,280 B; two devices of 16 KiB have less, and so have two of 40 KiB
  // that leave 24 KiB free.
  const Setting short_of({.layers = 2, .width = 64}, {1, 1}, BytesPerSecond(1e9), 4, Bytes(16 << 10));
  EXPECT_EQ(
      *bound(short_of).never_fits,
      "parameters, optimizer states and buffers need 32.5 KiB, all devices together have 32.0 KiB beside what each "
      "process takes for itself: add devices, or choose an optimizer with fewer states");
  Setting leaves({.layers = 2, .width = 64}, {1, 1}, BytesPerSecond(1e9), 4, Bytes(40 << 10));
  leaves.cluster.leave_free({.share = 0.6});
  EXPECT_EQ(
      *bound(leaves).never_fits,
      "parameters, optimizer states and buffers need 32.5 KiB, all devices together have 32.0 KiB beside what each "
      "process takes for itself and 48.0 KiB of headroom: add devices, or choose an optimizer with fewer states");
}

}  // namespace
}  // namespace motley
