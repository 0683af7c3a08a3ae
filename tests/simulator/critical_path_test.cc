#include "simulator/critical_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/simulator/drawn.h"
#include "tests/simulator/hand_built.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The steps that take time, as "DEVICE:INSTRUCTION from-to".
std::vector<std::string> steps_of(const Deployment& deployment, const std::vector<Event>& events) {
  std::vector<std::string> texts;
  for (const PathStep& step : CausalTimeline(deployment, events).critical_path()) {
    if (step.from == step.to) continue;
    texts.push_back(std::to_string(step.device) + ":" + std::to_string(step.instruction) +
                    (step.until == Edge::kBegin ? " begins " : " ") + std::to_string(std::lround(step.from.value)) +
                    "-" + std::to_string(std::lround(step.to.value)));
  }
  return texts;
}

TEST(CriticalPath, GoesWithTheMessageToWhoComputed) {
  HandBuilt h(star({1, 1}));
  const ValueId a = h.value(0, "a", 4);
  h.compute(0, h.op({2}), {}, {a});
  h.compute(1, h.op({1}), {}, {});
  const ValueId received = h.transfer(0, a, 1);
  h.compute(1, h.op({3}), {received}, {});
  // Device 1 is done with its first op at 1 and waits for 4 B at 1 B/s, sent at 2.
  EXPECT_THAT(steps_of(h.deployment, h.run().events), ElementsAre("0:0 0-2", "1:1 2-6", "1:2 6-9"));
}

TEST(CriticalPath, WaitsForTheLastMemberOfAnAllReduce) {
  HandBuilt h(star({1, 1}));
  std::vector<ValueId> gradients;
  for (DeviceIndex d = 0; d < 2; ++d) {
    gradients.push_back(h.value(d, "g", 4));
    h.compute(d, h.op({d == 0 ? 1.0 : 5.0}), {}, {gradients.back()});
  }
  h.all_reduce({0, 1}, gradients, 4);
  EXPECT_THAT(steps_of(h.deployment, h.run().events), ElementsAre("1:0 0-5", "0:1 5-9"));
}

TEST(CriticalPath, WaitsForTheReceiveToBePosted) {
  const HandBuilt h = late_posting();
  // As in SimulatorTest.ASendWaitsUntilItsReceiveIsPosted: the first receive ends at 8 and the fourth, of `early`, is
  // posted; the send that waits for it ends at 12.
  const std::vector<Event> events = h.run().events;
  const CausalTimeline timeline(h.deployment, events);
  EXPECT_EQ(timeline.duration({2, 1, Edge::kEnd, false, {}, {}}), Seconds(4));
}

TEST(CriticalPath, TellsWhenAnInstructionCouldHaveBegunBefore) {
  HandBuilt h(star({1, 1}));
  h.compute(0, h.op({1}), {}, {});
  h.compute(0, h.op({1}), {}, {});
  const std::vector<Event> events = {{0, 0, Seconds(2), Seconds(4)}, {0, 1, Seconds(5), Seconds(9)}};
  EXPECT_THAT(steps_of(h.deployment, events), ElementsAre("0:0 begins 0-2", "0:0 2-4", "0:1 begins 4-5", "0:1 5-9"));
  const std::vector<PathStep> path = CausalTimeline(h.deployment, events).critical_path();
  EXPECT_TRUE(path[0].first);
  EXPECT_FALSE(path[2].first);
}

TEST(CriticalPath, RefusesWhatIsNotOneWholeIteration) {
  HandBuilt h(star({1, 1}));
  h.compute(0, h.op({1}), {}, {});
  h.compute(0, h.op({1}), {}, {});
  std::vector<Event> events = h.run().events;
  const auto message = [&] { return support::error_of([&] { CausalTimeline(h.deployment, events); }); };
  events.push_back({0, 2, Seconds(1), Seconds(2)});
  EXPECT_THAT(message(), HasSubstr("has what the deployment lacks: instruction 2 of device 0"));
  events.back() = events.front();
  EXPECT_THAT(message(), HasSubstr("twice: instruction 0"));
  events.resize(1);
  EXPECT_THAT(message(), HasSubstr("lacks an instruction: instruction 1"));
}

class CriticalPathPropertyTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  static void expect_gapless(const std::vector<PathStep>& path, Seconds length) {
    ASSERT_FALSE(path.empty());
    EXPECT_TRUE(path.front().first);
    for (std::size_t i = 0; i < path.size(); ++i) {
      EXPECT_LE(path[i].from, path[i].to);
      EXPECT_EQ(path[i].from, i > 0 ? path[i - 1].to : Seconds(0));
    }
    EXPECT_EQ(path.back().to, length);
  }
};

TEST_P(CriticalPathPropertyTest, AddsUpToThePredictedIteration) {
  const Drawn drawn(GetParam());
  const SimulationResult result = drawn.run();
  const CausalTimeline timeline(drawn.deployment, result.events);
  const std::vector<PathStep> path = timeline.critical_path();
  EXPECT_EQ(timeline.length(), result.iteration);
  expect_gapless(path, result.iteration);
  for (const PathStep& step : path) {
    EXPECT_EQ(timeline.duration(step), step.to - step.from);
    // The simulator's hosts are never busy: only what packs a bucket lets the next op wait.
    const bool dispatched = step.until == Edge::kBegin && drawn.deployment.collectives.empty();
    EXPECT_TRUE(!dispatched || step.from == step.to);
  }
  for (const PathStep& step : timeline.steps()) EXPECT_EQ(timeline.duration(step), step.to - step.from);
}

// Clocks of two hosts that differ, and every instruction as slow as it likes.
TEST_P(CriticalPathPropertyTest, AddsUpToAnyMeasuredIteration) {
  Drawn drawn(GetParam());
  std::vector<Event> events = drawn.run().events;
  std::uniform_real_distribution<double> skew(0, 0.01), slower(1, 3);
  std::map<DeviceIndex, double> clocks;
  for (Event& event : events) {
    const double clock = clocks.try_emplace(event.device, skew(drawn.random)).first->second;
    event.start = Seconds(event.start.value * slower(drawn.random) + clock);
    event.end = std::max(event.start, Seconds(event.end.value * slower(drawn.random) + clock));
  }
  const CausalTimeline timeline(drawn.deployment, events);
  expect_gapless(timeline.critical_path(), timeline.length());
}

INSTANTIATE_TEST_SUITE_P(Random, CriticalPathPropertyTest, ::testing::Range(0U, 40U));

}  // namespace
}  // namespace motley
