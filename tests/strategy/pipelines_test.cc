#include "strategy/pipelines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "strategy/work.h"
#include "tests/strategy/setting.h"

namespace motley {
namespace {

constexpr BytesPerSecond kFast{1e12};

// Of the compute of a whole batch: what the slowest stage takes.
double longest_stage(const Strategy& strategy, const std::vector<GroupWork>& work) {
  std::map<std::int32_t, double> seconds;
  for (std::size_t g = 0; g < work.size(); ++g) {
    const GroupDecision& decision = strategy.groups[g];
    seconds[decision.stage] += work[g].seconds[decision.shares[0].device] / static_cast<double>(decision.shares.size());
  }
  double longest = 0;
  for (const auto& [stage, time] : seconds) longest = std::max(longest, time);
  return longest;
}

std::vector<GroupWork> work_of(const Setting& setting) {
  return group_work(setting.graph, setting.cluster, setting.costs, setting.batch);
}

// All cuts of the chain over all orders of some devices, one per stage.
double least_longest_stage(const std::vector<GroupWork>& work, std::size_t begin, std::set<DeviceIndex> left) {
  if (begin == work.size()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (DeviceIndex device : std::set<DeviceIndex>(left)) {
    left.erase(device);
    double seconds = 0;
    for (std::size_t end = begin + 1; end <= work.size(); ++end) {
      seconds += work[end - 1].seconds[device];
      least = std::min(least, std::max(seconds, least_longest_stage(work, end, left)));
    }
    left.insert(device);
  }
  return least;
}

TEST(PipelinesTest, TheSlowestStageIsAsFastAsCanBe) {
  for (const std::vector<double>& speeds :
       {std::vector<double>{1, 0.5, 0.25}, {0.3, 1, 0.7, 0.2}, {1, 0.1}, {0.9, 0.8, 0.7}}) {
    Setting setting({.layers = 7, .width = 8}, speeds, kFast, 64);
    for (std::size_t o = 0; o < setting.graph.ops.size(); ++o) {
      setting.costs.seconds_per_sample[o] *= 1 + static_cast<double>(o % 5);
    }
    const std::vector<GroupWork> work = work_of(setting);
    std::set<DeviceIndex> devices;
    for (std::size_t d = 0; d < speeds.size(); ++d) devices.insert(static_cast<DeviceIndex>(d));
    double found = std::numeric_limits<double>::infinity();
    for (const Strategy& start : pipeline_starts(setting.evaluator())) {
      found = std::min(found, longest_stage(start, work));
    }
    EXPECT_NEAR(found, least_longest_stage(work, 0, devices), 1e-12);
  }
}

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
