#include "profiler/curve.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

CurvePoint point(std::int64_t batch, double time, std::int64_t kept = 0, std::int64_t workspace = 0) {
  return {batch, Seconds(time), Seconds(time / 100), Bytes(kept), Bytes(workspace), 5};
}

TEST(FitLine, ExactPointsGiveTheLine) {
  const Line line = fit_line({{1, 5}, {2, 7}, {4, 11}});  // 3 + 2 x
  EXPECT_NEAR(line.intercept, 3, 1e-9);
  EXPECT_NEAR(line.slope, 2, 1e-9);
}

TEST(FitLine, NeverFallsNorStartsBelowZero) {
  // Falling: the best constant with weights 1/16, 1/4 is (4/16 + 2/4) / (1/16 + 1/4) = 0.75 / 0.3125 = 2.4.
  const Line falling = fit_line({{1, 4}, {2, 2}});
  EXPECT_DOUBLE_EQ(falling.slope, 0);
  EXPECT_NEAR(falling.intercept, 2.4, 1e-12);
  // 1 at 1, 4 at 2 would start at -2. In proportion: sum wxy / sum wxx = (1 + 8/16) / (1 + 4/16) = 1.2.
  const Line steep = fit_line({{1, 1}, {2, 4}});
  EXPECT_DOUBLE_EQ(steep.intercept, 0);
  EXPECT_NEAR(steep.slope, 1.2, 1e-12);
}

TEST(Curve, MeasuredBatchesGiveTheMeasuredFigures) {
  const Curve curve({point(8, 0.9), point(2, 0.3, 20, 7), point(1, 0.2)});
  EXPECT_DOUBLE_EQ(curve.at(2).time.value, 0.3);
  EXPECT_DOUBLE_EQ(curve.at(2).spread.value, 0.003);
  EXPECT_EQ(curve.at(2).kept.value, 20);
  EXPECT_EQ(curve.at(2).workspace.value, 7);
}

TEST(Curve, IsLinearBetween) {
  const Curve curve({point(2, 0.3, 200, 40), point(6, 0.5, 600, 80)});
  EXPECT_NEAR(curve.at(3).time.value, 0.35, 1e-12);
  EXPECT_EQ(curve.at(3).kept.value, 300);
  EXPECT_EQ(curve.at(5).workspace.value, 70);
}

TEST(Curve, CarriesOnWithTheFitsSlope) {
  const Curve curve({point(1, 5), point(2, 7), point(4, 11, 40)});  // 3 + 2 B
  EXPECT_NEAR(curve.at(10).time.value, 23, 1e-9);
  EXPECT_NEAR(curve.at(10).spread.value, 0.23, 1e-9);
}

TEST(Curve, StartsAtTheFixedPart) {
  const Curve curve({point(4, 11), point(8, 19)});  // 3 + 2 B
  EXPECT_NEAR(curve.at(2).time.value, 7, 1e-9);
  EXPECT_NEAR(curve.at(0).time.value, 3, 1e-9);
  const Curve proportional({point(4, 8)});
  EXPECT_NEAR(proportional.at(2).time.value, 4, 1e-12);
  EXPECT_NEAR(proportional.at(8).time.value, 16, 1e-12);
}

TEST(Curve, LargeBatchesFollowTheLargestThree) {
  // Bound by launches up to 4, by arithmetic from there: slope 1 of the last three alone.
  const Curve curve({point(1, 4), point(2, 4), point(4, 4), point(8, 8), point(16, 16)});
  EXPECT_NEAR(curve.at(32).time.value, 32, 1e-9);
  EXPECT_NEAR(curve.at(1).time.value, 4, 1e-9);
}

TEST(Curve, NeitherFallsNorJumpsWhereThePointsRise) {
  const Curve curve({point(1, 1), point(2, 4), point(4, 4.1), point(16, 30)});
  double last = -1;
  for (int batch = 0; batch <= 64; ++batch) {
    EXPECT_GE(curve.at(batch).time.value, last) << batch;
    last = curve.at(batch).time.value;
  }
}

TEST(Curve, BatchZeroAloneIsConstant) {
  const Curve curve({point(0, 0.2, 5, 6)});
  EXPECT_DOUBLE_EQ(curve.at(0).time.value, 0.2);
  EXPECT_DOUBLE_EQ(curve.at(77).time.value, 0.2);
  EXPECT_EQ(curve.at(77).kept.value, 5);
}

TEST(Curve, OfEqualBatchesTheLastCounts) { EXPECT_DOUBLE_EQ(Curve({point(1, 3), point(1, 2)}).at(1).time.value, 2); }

}  // namespace
}  // namespace motley
