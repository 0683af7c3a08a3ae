#include "base/statistics.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({5, 1, 9}), 5);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

}  // namespace
}  // namespace motley
