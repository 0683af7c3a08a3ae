#include "strategy/bound.h"

#include <gtest/gtest.h>

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

  // No strategy on a random walk is simulated below the bound.
  static void expect_bound_holds(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                 std::int64_t batch) {
    const double least = lower_bound(graph, cluster, costs, batch).seconds().value;
    const Evaluator evaluator(graph, cluster, costs, batch);
    const Moves moves(evaluator, group_work(graph, cluster, costs, batch));
    std::mt19937_64 random(5);
    Evaluation current = evaluator.evaluate(in_samples(evaluator.evaluate_baseline("cp-ar").strategy, batch));
    for (int i = 0; i < 300; ++i) {
      current = evaluator.evaluate(moves.propose(current, random));
      ASSERT_GE(current.simulation.iteration.value, least * (1 - 1e-9));
    }
  }
};

TEST_F(BoundTest, WorkOnProportionalDevicesIsTheIdeal) {
  const Setting setting({.layers = 6}, {1, 0.5, 0.25}, BytesPerSecond(1e9), 28);
  EXPECT_NEAR(bound(setting).work.value, setting.seconds_on_one() / 1.75, 1e-9);
}

TEST_F(BoundTest, TheCriticalPathIsOneSampleThroughAllOpsOnTheFastestDevice) {
  // 6 linear and 6 relu forwards, the same backwards: 24 ops of 1e-5 s. The mean and its backward lie beside the path,
  // since the gradient of a mean needs no activation.
  const Setting setting({.layers = 6}, {1, 0.5}, BytesPerSecond(1e9), 28);
  EXPECT_NEAR(bound(setting).critical_path.value, 24e-5, 1e-12);
}

TEST_F(BoundTest, OpsGoWhereTheyAreRelativelyFast) {
  // Two devices, each ten times faster on one half of the ops. Evenly shared work would be bound by 5.5 / 2 parts of a
  // second each; the optimum gives each device its half.
  class Halves : public support::FixedCosts {
   public:
    using FixedCosts::FixedCosts;
    OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override {
      OpCost cost = FixedCosts::op(op, device, batch);
      if (op % 2 != device) cost.time = cost.time * 10;
      return cost;
    }
  };
  const Setting setting({.layers = 6}, {1, 1}, BytesPerSecond(1e9), 10);
  Halves costs(setting.graph, {1, 1}, 1e-5);
  double by_device[2] = {0, 0};
  for (std::size_t o = 0; o < setting.graph.ops.size(); ++o) {
    if (setting.graph.ops[o].kind == OpKind::kUpdate) costs.seconds_per_sample[o] = 0;
    by_device[o % 2] += costs.seconds_per_sample[o] * 10;
  }
  const double work = lower_bound(setting.graph, setting.cluster, costs, 10).work.value;
  EXPECT_LE(work, std::max(by_device[0], by_device[1]));  // a schedule that exists
  EXPECT_GE(work, 0.97 * (by_device[0] + by_device[1]) / 2);
}

TEST_F(BoundTest, NoStrategyBeatsItWithLinearCosts) {
  const Setting setting({.layers = 6, .width = 16, .residual = true}, {1, 0.5, 0.25}, BytesPerSecond(1e10), 40);
  expect_bound_holds(setting.graph, setting.cluster, setting.costs, setting.batch);
}

TEST_F(BoundTest, NoStrategyBeatsItWithCrookedCosts) {
  const Setting setting({.layers = 6, .width = 16, .tied = true}, {1, 1, 1}, BytesPerSecond(1e12), 40);
  expect_bound_holds(setting.graph, setting.cluster, KneeCosts(), setting.batch);
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
