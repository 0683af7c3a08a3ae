#include "strategy/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/strategy/setting.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PlannerTest : public ::testing::Test {
 protected:
  static Plan plan(const Setting& setting) {
    SearchOptions options;
    options.time = Seconds(1e6);
    options.evaluations = 200;
    options.threads = 1;
    return motley::plan(setting.graph, setting.cluster, setting.costs, setting.batch, options);
  }
  static constexpr BytesPerSecond kFast{1e10};
};

TEST_F(PlannerTest, APlanLiesBetweenItsBoundAndTheBestBaseline) {
  const Plan plan = this->plan({{.layers = 8, .width = 16}, {1, 0.5, 0.25}, kFast, 64});
  ASSERT_TRUE(plan.feasible());
  EXPECT_GE(plan.chosen.simulation.iteration, plan.bound.seconds());
  for (const Evaluation& baseline : plan.baselines) EXPECT_FALSE(better(baseline, plan.chosen));
  EXPECT_THAT(plan.reasons, IsEmpty());
}

TEST_F(PlannerTest, ARunnerUpSaysWhatADecisionIsWorth) {
  // Compute-bound: without the device of speed 1, the ones of 0.5 and 0.25 take 1.75 / 0.75 times as long.
  const Plan plan = this->plan({{.layers = 8, .width = 16}, {1, 0.5, 0.25}, kFast, 112});
  const auto found = std::find_if(plan.runners_up.begin(), plan.runners_up.end(),
                                  [](const RunnerUp& r) { return r.instead == "without n0/0"; });
  ASSERT_NE(found, plan.runners_up.end());
  EXPECT_EQ(found->decision, "uses n0/0");
  EXPECT_NEAR(found->times_slower, 1.75 / 0.75, 0.1);
}

TEST_F(PlannerTest, RunnersUpAreTheClosestFirst) {
  const Plan plan = this->plan({{.layers = 8, .width = 16}, {1, 0.5, 0.25}, kFast, 64});
  for (std::size_t i = 1; i < plan.runners_up.size(); ++i) {
    if (plan.runners_up[i].times_slower == 0) break;
    EXPECT_LE(plan.runners_up[i - 1].times_slower, plan.runners_up[i].times_slower);
  }
}

TEST_F(PlannerTest, WithoutMemoryForTheBatchItSaysWhichBatchFits) {
  // Two layers of width 4: 80 B of weights and biases each. At batch 1000 each device holds at least x, a linear's or a
  // relu's output and the gradients of 16 kB; at batch 1 all is a few hundred bytes.
  const Plan plan = this->plan({{.layers = 2}, {1, 1}, kFast, 1000, Bytes(8000)});
  EXPECT_FALSE(plan.feasible());
  EXPECT_THAT(plan.reasons[0], HasSubstr("of 7.81 KiB"));
  ASSERT_THAT(plan.changes, Not(IsEmpty()));
  EXPECT_THAT(plan.changes[0], HasSubstr("a batch of "));
  EXPECT_THAT(plan.changes.back(), HasSubstr("more on n"));
}

TEST_F(PlannerTest, TheBatchThatFitsIsTheLargestThatABaselineFits) {
  Setting setting({.layers = 2}, {1, 1}, kFast, 1000, Bytes(8000));
  const std::string change = plan(setting).changes[0];
  const std::int64_t fits = std::stoll(change.substr(change.find("batch of ") + 9));
  const auto any_baseline_fits = [&](std::int64_t batch) {
    setting.batch = batch;
    const std::vector<Evaluation> baselines = plan(setting).baselines;
    return std::any_of(baselines.begin(), baselines.end(), [](const Evaluation& e) { return e.feasible(); });
  };
  EXPECT_TRUE(any_baseline_fits(fits));
  EXPECT_FALSE(any_baseline_fits(fits + 1));
}

TEST_F(PlannerTest, WhatNeverFitsIsSaidWithoutABatch) {
  const Plan plan = this->plan({{.layers = 2, .width = 64}, {1, 1}, kFast, 4, Bytes(16 << 10)});
  EXPECT_FALSE(plan.feasible());
  EXPECT_THAT(plan.reasons.back(), HasSubstr("all devices together have 32.0 KiB"));
  EXPECT_THAT(plan.changes, ElementsAre(HasSubstr("more on n")));
}

// Byte by byte, memory that shall stay free is as good as memory that is not there.
TEST_F(PlannerTest, HeadroomIsNoMemoryToPlanWith) {
  const support::ChainOptions chain{.layers = 8, .width = 16};
  for (const std::int64_t batch : {16, 64, 256}) {
    Setting less(chain, {1, 0.5, 0.25}, kFast, batch, Bytes(30000));
    Setting half(chain, {1, 0.5, 0.25}, kFast, batch, Bytes(60000));
    half.cluster.leave_free({.share = 0.5});
    const Plan without = plan(less), with = plan(half);
    EXPECT_EQ(with.chosen.strategy, without.chosen.strategy) << batch;
    EXPECT_EQ(with.feasible(), without.feasible()) << batch;
    for (std::size_t b = 0; b < with.baselines.size(); ++b) {
      EXPECT_EQ(with.baselines[b].feasible(), without.baselines[b].feasible())
          << batch << with.baselines[b].strategy.name;
    }
    for (const DeviceMemory& memory : with.chosen.simulation.memory) {
      EXPECT_EQ(memory.fits(), memory.peak <= Bytes(30000)) << batch;
    }
  }
}

TEST_F(PlannerTest, OfWhatIsAddedHeadroomTakesItsShare) {
  Setting setting({.layers = 2}, {1}, kFast, 1000, Bytes(8000));
  setting.cluster.leave_free({.share = 0.5});
  const Plan short_of = plan(setting);
  const Bytes lacking = short_of.chosen.simulation.memory[0].lacking();
  EXPECT_THAT(short_of.changes.back(), HasSubstr(to_string(lacking * 2) + " more on n0/0"));
  setting.cluster.devices[0].memory += lacking * 2;
  EXPECT_TRUE(plan(setting).feasible());
}

TEST_F(PlannerTest, ABatchOutsideTheModelsRangeIsRefused) {
  Setting setting({.layers = 2}, {1, 1}, kFast, 8);
  setting.graph.max_batch = 4;
  const std::string message = support::error_of([&] { plan(setting); });
  EXPECT_THAT(message, HasSubstr("batch 8 is outside the model's range 1 to 4"));
}

}  // namespace
}  // namespace motley
