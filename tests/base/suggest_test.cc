#include "base/suggest.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

const std::vector<std::string> kKinds{"V100-16GB", "V100-32GB", "A100-40GB", "T4"};

TEST(Suggest, FindsTheNearestName) {
  EXPECT_EQ(nearest_name("v100_16gb", kKinds), "V100-16GB");
  EXPECT_EQ(nearest_name("V100-32G", kKinds), "V100-32GB");
  EXPECT_EQ(nearest_name("A100", kKinds), "A100-40GB");
  EXPECT_EQ(did_you_mean("bandwith", {"latency", "bandwidth"}), " (did you mean bandwidth?)");
  EXPECT_EQ(nearest_name("btach", {"bench", "batch"}), "batch");  // a swap is one change, as a wrong letter is
}

TEST(Suggest, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("toaster", kKinds), "");
  EXPECT_EQ(did_you_mean("", kKinds), "");
}

}  // namespace
}  // namespace motley
