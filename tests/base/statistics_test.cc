#include "base/statistics.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({5, 1, 9}), 5);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

TEST(Percentile, IsTheNearestRank) {
  // Of 20 values, 19 are 95 of 100.
  std::vector<double> values;
  for (int i = 20; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(percentile(values, 95), 19);
  EXPECT_EQ(percentile(values, 96), 20);
  EXPECT_EQ(percentile(values, 50), 10);
  EXPECT_EQ(percentile({7}, 5), 7);
}

}  // namespace
}  // namespace motley
