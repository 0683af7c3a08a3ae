#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "compiler/strategy.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SplitBatch, FollowsTheWeights) {
  EXPECT_THAT(split_batch({{0, 3}, {1, 1}}, 8), ElementsAre(6, 2));
  EXPECT_THAT(split_batch({{0, 1}, {1, 0.5}, {2, 0.25}}, 14), ElementsAre(8, 4, 2));
  EXPECT_THAT(split_batch({{0, 0.1}, {1, 0.2}}, 9), ElementsAre(3, 6));
}

TEST(SplitBatch, GivesTheLargestRemaindersFirst) {
  // 10 * (0.5, 0.3, 0.2) = 5, 3, 2; 7 * ... = 3.5, 2.1, 1.4: one sample is left for the .5.
  EXPECT_THAT(split_batch({{0, 5}, {1, 3}, {2, 2}}, 7), ElementsAre(4, 2, 1));
  EXPECT_THAT(split_batch({{0, 1}, {1, 1}, {2, 1}}, 8), ElementsAre(3, 3, 2));
}

TEST(SplitBatch, LeavesNobodyWithoutASample) {
  EXPECT_THAT(split_batch({{0, 1000}, {1, 1}, {2, 1}}, 4), ElementsAre(2, 1, 1));
  EXPECT_THAT(split_batch({{0, 1}, {1, 1000}}, 2), ElementsAre(1, 1));
  EXPECT_THAT(split_batch({{0, 1}, {1, 1}}, 1), IsEmpty());
}

TEST(SplitBatch, AlwaysSumsToTheBatch) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<Share> shares;
    for (int i = 0; i <= round % 8; ++i) shares.push_back({i, 0.01 + static_cast<double>(random() % 1000)});
    const auto batch = static_cast<std::int64_t>(shares.size() + random() % 100);
    const std::vector<std::int64_t> samples = split_batch(shares, batch);
    EXPECT_EQ(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}), batch);
    for (std::int64_t count : samples) EXPECT_GE(count, 1);
  }
}

}  // namespace
}  // namespace motley
