#include "simulator/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "tests/simulator/drawn.h"
#include "tests/simulator/hand_built.h"

namespace motley {
namespace {

class ComparisonTest : public ::testing::Test {
 protected:
  // Device 0: `first` (2 s), sends 4 B at 1 B/s; device 1: `other` (5 s) beside it, then `last` (3 s).
  ComparisonTest() : h_(star({1, 1})) {
    const ValueId a = h_.value(0, "a", 4);
    h_.compute(0, first_ = h_.op({2}), {}, {a});
    const ValueId received = h_.transfer(0, a, 1);
    h_.compute(1, other_ = h_.op({5}), {}, {});
    h_.compute(1, last_ = h_.op({3}, OpKind::kInputGradient), {received}, {});
    predicted_ = h_.run().events;  // 2 + 4 + 3
  }
  Comparison compared() const {
    return compare(h_.graph, h_.deployment, {"predicted", predicted_}, {"measured", h_.run().events});
  }
  static const Compared* of(const Comparison& comparison, PathKind kind) {
    for (const Comparison::Kind& one : comparison.kinds) {
      if (one.kind == kind) return &one.time;
    }
    return nullptr;
  }

  HandBuilt h_;
  OpId first_ = kNone, other_ = kNone, last_ = kNone;
  std::vector<Event> predicted_;
};

TEST_F(ComparisonTest, FindsTheInstructionThatIsSlow) {
  h_.costs.ops[last_].seconds = 10;
  const Comparison comparison = compared();
  EXPECT_EQ(comparison.iteration.error(), Seconds(9 - 16));
  EXPECT_EQ(comparison.instructions[0].device, 1);
  EXPECT_EQ(comparison.instructions[0].instruction, 2);
  EXPECT_EQ(comparison.instructions[0].time.error(), Seconds(-7));
  EXPECT_EQ(of(comparison, PathKind::kInputGradient)->error(), Seconds(-7));
  EXPECT_EQ(of(comparison, PathKind::kForward)->error(), Seconds(0));
  EXPECT_EQ(of(comparison, PathKind::kReceive)->error(), Seconds(0));
  EXPECT_EQ(comparison.elsewhere.error(), Seconds(0));
}

TEST_F(ComparisonTest, AWaitIsTheErrorOfWhatWasWaitedFor) {
  h_.costs.ops[first_].seconds = 6;
  const Comparison comparison = compared();
  EXPECT_EQ(comparison.instructions[0].device, 0);
  EXPECT_EQ(comparison.instructions[0].time.error(), Seconds(-4));
  ASSERT_EQ(comparison.devices.size(), 2U);
  EXPECT_EQ(comparison.devices[0].time.error(), Seconds(-4));  // not device 1's, which did the waiting
  EXPECT_EQ(comparison.devices[1].time.error(), Seconds(0));
}

TEST_F(ComparisonTest, ASlowLinkIsTheMessagesError) {
  for (Link& link : h_.cluster.links) link.bandwidth = std::min(link.bandwidth, BytesPerSecond(0.5));
  h_.cluster.finish();
  const Comparison comparison = compared();
  EXPECT_EQ(of(comparison, PathKind::kReceive)->error(), Seconds(4 - 8));
  EXPECT_EQ(comparison.instructions[0].kind, PathKind::kReceive);
}

// `other`, predicted to be done at 5 while the message comes at 6, takes 8: 2 s more than what it was off the path.
TEST_F(ComparisonTest, WhatThePredictionWaitedForElsewhereIsOnItsOwn) {
  h_.costs.ops[other_].seconds = 8;
  const Comparison comparison = compared();
  EXPECT_EQ(comparison.iteration.error(), Seconds(9 - 11));
  EXPECT_EQ(of(comparison, PathKind::kForward)->error(), Seconds(5 - 8));
  EXPECT_EQ(comparison.elsewhere.predicted, Seconds(1));
}

TEST_F(ComparisonTest, APredictionThatIsTooLongIsFollowedItself) {
  h_.costs.ops[first_].seconds = 0.5;
  const Comparison comparison = compared();  // 9 against 5 + 3: now `other` is waited for
  EXPECT_FALSE(comparison.along_measured);
  EXPECT_EQ(comparison.instructions[0].device, 0);
  EXPECT_EQ(comparison.instructions[0].time.error(), Seconds(1.5));
  EXPECT_EQ(comparison.elsewhere.measured, Seconds(0.5));  // from 4.5, when the message came
}

TEST_F(ComparisonTest, AnInstructionThatCouldHaveBegunWasNotDispatched) {
  std::vector<Event> measured = predicted_;
  for (Event& event : measured) {
    if (event.device == 1 && event.instruction == 2) event.start = Seconds(7), event.end = Seconds(10);
  }
  const Comparison comparison = compare(h_.graph, h_.deployment, {"predicted", predicted_}, {"measured", measured});
  EXPECT_EQ(of(comparison, PathKind::kDispatch)->error(), Seconds(-1));
  EXPECT_EQ(of(comparison, PathKind::kInputGradient)->error(), Seconds(0));
}

// Device 1 has begun its first op when device 0 is still in the iteration before, 3 s more; from the end of the one to
// the end of the other iteration are 11 s: 9 of them on the critical path, 2 for inputs and the like.
TEST_F(ComparisonTest, IterationsThatOverlapAreMeasuredFromEndToEnd) {
  Timeline measured{"measured", predicted_, {}, Seconds(11)};
  for (Event& event : measured.events) {
    event.start += Seconds(event.device == 1 && event.instruction == 1 ? 0 : 3);
    event.end += Seconds(3);
  }
  const Comparison comparison = compare(h_.graph, h_.deployment, {"predicted", predicted_}, measured);
  EXPECT_EQ(comparison.iteration.measured, Seconds(11));
  EXPECT_EQ(of(comparison, PathKind::kBetween)->error(), Seconds(-2));
  EXPECT_EQ(comparison.elsewhere.error(), Seconds(0));
}

// 5 s off the path that were 2 s in truth change no iteration, but a mean of forward ops.
TEST_F(ComparisonTest, SumsUpAllInstructionsOnThePathOrNot) {
  h_.costs.ops[other_].seconds = 2;
  const Comparison comparison = compared();
  EXPECT_EQ(comparison.kinds[0].kind, PathKind::kForward);
  EXPECT_EQ(comparison.kinds[0].time.error(), Seconds(0));
  EXPECT_EQ(comparison.kinds[0].everywhere.predicted, Seconds(2 + 5));
  EXPECT_EQ(comparison.kinds[0].everywhere.measured, Seconds(2 + 2));
}

class ComparisonPropertyTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  struct Pair {
    Drawn drawn;
    std::vector<Event> predicted, measured;
    Comparison run() const {
      return compare(drawn.graph, drawn.deployment, {"predicted", predicted}, {"measured", measured});
    }
  };
  // The same deployment on devices of other speeds.
  static Pair draw(std::uint32_t seed) {
    Pair pair{Drawn(seed), {}, {}};
    pair.predicted = pair.drawn.run().events;
    for (double& seconds : pair.drawn.costs->seconds_per_sample) {
      seconds *= std::uniform_real_distribution<double>(0.5, 2)(pair.drawn.random);
    }
    pair.measured = pair.drawn.run().events;
    return pair;
  }
};

TEST_P(ComparisonPropertyTest, AllPartsAddUpToTheIteration) {
  const Comparison comparison = draw(GetParam()).run();
  const auto expect_whole = [&](Compared sum) {
    sum.predicted += comparison.elsewhere.predicted;
    sum.measured += comparison.elsewhere.measured;
    EXPECT_NEAR(sum.predicted.value, comparison.iteration.predicted.value, 1e-12);
    EXPECT_NEAR(sum.measured.value, comparison.iteration.measured.value, 1e-12);
  };
  const auto sum_of = [](const auto& parts) {
    Compared sum;
    for (const auto& part : parts) {
      sum.predicted += part.time.predicted;
      sum.measured += part.time.measured;
    }
    return sum;
  };
  expect_whole(sum_of(comparison.kinds));
  expect_whole(sum_of(comparison.devices));
  expect_whole(sum_of(comparison.instructions));
  EXPECT_GE(comparison.elsewhere.predicted.value, -1e-12);
  EXPECT_GE(comparison.elsewhere.measured.value, -1e-12);
}

TEST_P(ComparisonPropertyTest, OfATimelineWithItselfHasNoError) {
  Pair pair = draw(GetParam());
  pair.measured = pair.predicted;
  const Comparison comparison = pair.run();
  for (const auto& instruction : comparison.instructions) EXPECT_EQ(instruction.time.error(), Seconds(0));
  EXPECT_NEAR(comparison.elsewhere.predicted.value, 0, 1e-12);
}

TEST_P(ComparisonPropertyTest, EightThreadsGiveWhatOneDoes) {
  const Pair pair = draw(GetParam());
  const Comparison expected = pair.run();
  std::vector<Comparison> found(8);
  {
    std::vector<std::jthread> threads;
    for (Comparison& one : found) threads.emplace_back([&] { one = pair.run(); });
  }
  for (const Comparison& one : found) {
    ASSERT_EQ(one.instructions.size(), expected.instructions.size());
    for (std::size_t i = 0; i < one.instructions.size(); ++i) {
      EXPECT_EQ(one.instructions[i].device, expected.instructions[i].device);
      EXPECT_EQ(one.instructions[i].instruction, expected.instructions[i].instruction);
      EXPECT_EQ(one.instructions[i].time.error(), expected.instructions[i].time.error());
    }
    EXPECT_EQ(one.elsewhere.error(), expected.elsewhere.error());
  }
}

INSTANTIATE_TEST_SUITE_P(Random, ComparisonPropertyTest, ::testing::Range(0U, 20U));

}  // namespace
}  // namespace motley
