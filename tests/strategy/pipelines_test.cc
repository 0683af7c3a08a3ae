#include "strategy/pipelines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "tests/strategy/setting.h"

namespace motley {
namespace {

constexpr BytesPerSecond kFast{1e12};

// Two devices alike share a stage where that is faster than a stage for each: three layers, of which one takes as long
// as the other two.
TEST(PipelinesTest, AStageMayHaveSeveralDevices) {
  Setting setting({.layers = 3, .width = 8}, {1, 1, 1}, kFast, 64);
  for (std::size_t o = 0; o < setting.graph.ops.size(); ++o) {
    if (setting.graph.ops[o].group == 1) setting.costs.seconds_per_sample[o] *= 10;
  }
  const std::vector<Strategy> starts = pipeline_starts(setting.evaluator());
  const auto shared = [](const GroupDecision& group) { return group.shares.size() > 1; };
  EXPECT_TRUE(std::ranges::any_of(starts, [&](const Strategy& s) { return std::ranges::any_of(s.groups, shared); }));
}

TEST(PipelinesTest, AllStartsCanBeCompiled) {
  const Setting setting({.layers = 9, .width = 8, .residual = true, .tied = true}, {1, 0.5, 0.5, 0.25}, kFast, 13);
  const Evaluator evaluator = setting.evaluator();
  const std::vector<Strategy> starts = pipeline_starts(evaluator);
  EXPECT_FALSE(starts.empty());
  for (const Strategy& start : starts) {
    const Evaluation evaluation = evaluator.evaluate(start);
    EXPECT_FALSE(evaluation.not_compilable) << *evaluation.not_compilable;
  }
}

// Eight layers of which a device holds no more than three, whatever their speeds.
TEST(PipelinesTest, StagesKeepWithinMemory) {
  const Setting setting({.layers = 8, .width = 64, .momentum = 0.9}, {1, 0.1, 0.1}, kFast, 16, Bytes(170 << 10));
  for (const Strategy& start : pipeline_starts(setting.evaluator())) {
    std::map<DeviceIndex, int> layers;
    for (const GroupDecision& group : start.groups) ++layers[group.shares[0].device];
    for (const auto& [device, count] : layers) EXPECT_LE(count, 3);
  }
}

TEST(PipelinesTest, AutoIsTheFastestSchedule) {
  const Setting setting({.layers = 9, .width = 8}, {1, 0.5, 0.25}, BytesPerSecond(1e6), 24);
  const Evaluator evaluator = setting.evaluator();
  const Evaluation found = evaluator.evaluate_baseline("pp:auto");
  double least = std::numeric_limits<double>::infinity();
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2", "chimera", "graphpipe"}) {
    const Evaluation one = evaluator.evaluate_baseline(std::string("pp:") + schedule);
    least = std::min(least, one.simulation.iteration.value);
  }
  EXPECT_EQ(found.simulation.iteration.value, least);
  EXPECT_NE(found.strategy.schedule, "auto");
}

TEST(PipelinesTest, OneDeviceHasNone) {
  EXPECT_TRUE(pipeline_starts(Setting({.layers = 4}, {1}, kFast, 8).evaluator()).empty());
}

}  // namespace
}  // namespace motley
