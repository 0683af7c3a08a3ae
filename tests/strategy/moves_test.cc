#include "strategy/search/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "strategy/baselines.h"
#include "tests/strategy/setting.h"

namespace motley {
namespace {

class MovesTest : public ::testing::Test {
 protected:
  Setting setting_{{.layers = 6}, {1, 0.5, 0.25}, BytesPerSecond(1e9), 28};
  Evaluator evaluator_ = setting_.evaluator();
};

TEST_F(MovesTest, StrategiesThatDivideAlikeAreOne) {
  const auto with_weights = [&](double a, double b) {
    return in_samples(uniform_strategy("", setting_.graph, {{{0, a}, {1, b}}}), 28);
  };
  EXPECT_EQ(fingerprint(with_weights(1, 1)), fingerprint(with_weights(0.5, 0.501)));
  EXPECT_NE(fingerprint(with_weights(1, 1)), fingerprint(with_weights(1, 2)));
}

TEST_F(MovesTest, RebalancingEvenSharesGivesProportionalOnes) {
  // 28 even samples are 10, 9, 9 (largest remainders); busy 10, 18, 36 per sample-second. Each share over its busy
  // time is the device's speed: 1 : 0.5 : 0.25 of 28 is 16, 8, 4.
  const Strategy strategy = rebalanced(evaluator_.evaluate_baseline("ev-ar"), 28);
  EXPECT_THAT(split_batch(strategy.groups[0].shares, 28), ::testing::ElementsAre(16, 8, 4));
}

TEST_F(MovesTest, EveryProposalCanBeCompiled) {
  const Moves moves(evaluator_, group_work(setting_.graph, setting_.cluster, setting_.costs, 28));
  std::mt19937_64 random(3);
  Evaluation current = evaluator_.evaluate(in_samples(evaluator_.evaluate_baseline("cp-ar").strategy, 28));
  for (int i = 0; i < 500; ++i) {
    current = evaluator_.evaluate(moves.propose(current, random));
    ASSERT_FALSE(current.not_compilable) << *current.not_compilable;
    for (const GroupDecision& decision : current.strategy.groups) {
      const double samples = std::accumulate(decision.shares.begin(), decision.shares.end(), 0.0,
                                             [](double sum, const Share& share) { return sum + share.weight; });
      ASSERT_EQ(samples, 28);
    }
  }
}

TEST_F(MovesTest, ABatchOfOneStaysOnOneDevice) {
  setting_.batch = 1;
  const Evaluator evaluator = setting_.evaluator();
  const Moves moves(evaluator, group_work(setting_.graph, setting_.cluster, setting_.costs, 1));
  std::mt19937_64 random(3);
  Evaluation current = evaluator.evaluate_baseline("mp:n0/0");
  for (int i = 0; i < 200; ++i) {
    current = evaluator.evaluate(moves.propose(current, random));
    ASSERT_FALSE(current.not_compilable) << *current.not_compilable;
  }
}

}  // namespace
}  // namespace motley
