#include "runtime/pace_probe.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

TEST(PaceProbe, TimesBothPiecesOfWork) {
  PaceProbe probe("cpu", 1);
  const Pace pace = probe.measure();
  // 2 * 128^3 operations: no core does 10^13 a second. 2^16 exponentials: nor 10^12 of these.
  EXPECT_GT(pace.product, Seconds(4e-7));
  EXPECT_GT(pace.pass, Seconds(6e-8));
}

}  // namespace
}  // namespace motley
