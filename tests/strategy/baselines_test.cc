#include "strategy/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/chain_graph.h"
#include "tests/support/error_of.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BaselinesTest : public ::testing::Test {
 protected:
  // 12 equal layers; speeds 1 : 0.5 : 0.25. Updates are free, so that all time is per sample.
  BaselinesTest() : graph_(support::chain_graph({.layers = 12})), costs_(graph_, {1, 0.5, 0.25}) {
    for (std::size_t o = 0; o < graph_.ops.size(); ++o) {
      if (graph_.ops[o].kind == OpKind::kUpdate) costs_.seconds_per_sample[o] = 0;
    }
  }
  static Cluster cluster(Bytes memory = Bytes(1 << 30)) {
    return support::star_cluster(3, {BytesPerSecond(1)}, Seconds(0), memory);
  }
  std::vector<int> groups_per_device(const Strategy& strategy) const {
    std::vector<int> count(3, 0);
    for (const GroupDecision& decision : strategy.groups) {
      EXPECT_EQ(decision.shares.size(), 1U);
      ++count[decision.shares[0].device];
    }
    return count;
  }

  Graph graph_;
  support::FixedCosts costs_;
};

TEST_F(BaselinesTest, NamesAllOfTheCluster) {
  EXPECT_THAT(strategy_names(cluster()), ElementsAre("ev-ps", "ev-ar", "cp-ps", "cp-ar", "mp:n0/0", "mp:n1/0",
                                                     "mp:n2/0", "mp-blocks", "pp:gpipe", "pp:1f1b"));
}

TEST_F(BaselinesTest, AnUnknownNameListsTheKnown) {
  const std::string message =
      support::error_of([&] { baseline("ev-arr", graph_, cluster(), costs_, 8); }, ErrorKind::kInvalidInput);
  EXPECT_THAT(message, HasSubstr("\"ev-arr\" (did you mean ev-ar?); there are ev-ps, ev-ar, cp-ps"));
}

TEST_F(BaselinesTest, EvenSharesAreEvenAndTheMethodIsTheNames) {
  const Strategy strategy = baseline("ev-ps", graph_, cluster(), costs_, 12);
  EXPECT_THAT(split_batch(strategy.groups[0].shares, 12), ElementsAre(4, 4, 4));
  EXPECT_EQ(strategy.groups[0].gradient, GradientMethod::kParameterServer);
  EXPECT_EQ(baseline("ev-ar", graph_, cluster(), costs_, 12).groups[5].gradient, GradientMethod::kAllReduce);
}

TEST_F(BaselinesTest, ProportionalSharesFollowSpeed) {
  // 14 samples at 1 : 0.5 : 0.25 are 8, 4, 2.
  const Strategy strategy = baseline("cp-ar", graph_, cluster(), costs_, 14);
  EXPECT_THAT(split_batch(strategy.groups[3].shares, 14), ElementsAre(8, 4, 2));
}

TEST_F(BaselinesTest, UnknownNamesAreToldWithTheNearest) {
  const auto refusal = [&](const std::string& name) {
    return support::error_of([&] { baseline(name, graph_, cluster(), costs_, 8); }, ErrorKind::kInvalidInput);
  };
  EXPECT_THAT(refusal("evar"), HasSubstr("unknown strategy \"evar\" (did you mean ev-ar?)"));
  EXPECT_THAT(refusal("mp:n1"), HasSubstr("did you mean mp:n1/0?"));
  EXPECT_THAT(refusal("pp:1fb1"), HasSubstr("did you mean pp:1f1b?"));
  for (const char* name : {"", "mp:", "mp:n3/0", "search"}) EXPECT_THAT(refusal(name), HasSubstr("as in mp:n0/0"));
  check_strategy_name("mp:any", {});  // where the devices are not known yet
}

TEST_F(BaselinesTest, OneDeviceHoldsEverything) {
  EXPECT_THAT(groups_per_device(baseline("mp:n1/0", graph_, cluster(), costs_, 8)), ElementsAre(0, 12, 0));
}

TEST_F(BaselinesTest, BlocksAreEvenInTimeAndContiguous) {
  // At 1 : 0.5 : 0.25, 12 equal layers fit in 7 + 3 + 2: 7, 6, 8 layer times; any device with less makes another
  // longer.
  const Strategy strategy = baseline("mp-blocks", graph_, cluster(), costs_, 8);
  const std::vector<int> count = groups_per_device(strategy);
  EXPECT_EQ(count[0] + count[1] + count[2], 12);
  EXPECT_LE(std::max({count[0] * 1, count[1] * 2, count[2] * 4}), 8);
  for (std::size_t g = 1; g < 12; ++g) {
    EXPECT_GE(strategy.groups[g].shares[0].device, strategy.groups[g - 1].shares[0].device);
  }
}

TEST_F(BaselinesTest, BlocksMoveOnWhereMemoryEnds) {
  // A layer's weight and bias are 20 floats, with gradients 160 B; two activations of 8 x 4 floats are 256 B: 416 B. A
  // device of 1700 B takes four layers, however fast it is.
  const Cluster small = cluster(Bytes(1700));
  EXPECT_THAT(groups_per_device(baseline("mp-blocks", graph_, small, costs_, 8)), ElementsAre(4, 4, 4));
}

TEST_F(BaselinesTest, BlocksLeaveHeadroomFree) {
  Cluster roomy = cluster(Bytes(2 * 1700));
  roomy.leave_free({.share = 0.5});
  EXPECT_THAT(groups_per_device(baseline("mp-blocks", graph_, roomy, costs_, 8)), ElementsAre(4, 4, 4));
}

// 12 equal layers on 3 devices: 4 each, whatever the devices' speeds; 4 micro-batches per stage.
TEST_F(BaselinesTest, PipelinesAreEven) {
  const Strategy strategy = baseline("pp:gpipe", graph_, cluster(), costs_, 40);
  EXPECT_EQ(strategy.schedule, "gpipe");
  EXPECT_EQ(strategy.micro_batches, 12);
  EXPECT_THAT(groups_per_device(strategy), ElementsAre(4, 4, 4));
  for (std::size_t g = 0; g < 12; ++g) EXPECT_EQ(strategy.groups[g].stage, static_cast<int>(g / 4));
  EXPECT_EQ(baseline("pp:1f1b", graph_, cluster(), costs_, 7).micro_batches, 7);
}

// Two chunks of two layers per device: in turns, and in the shape of a V.
TEST_F(BaselinesTest, PipelinesOfChunksAreDealtOut) {
  const auto devices = [&](const std::string& name) {
    std::vector<DeviceIndex> all;
    for (const GroupDecision& group : baseline(name, graph_, cluster(), costs_, 40).groups) {
      all.push_back(group.shares[0].device);
    }
    return all;
  };
  EXPECT_THAT(devices("pp:interleaved-1f1b"), ElementsAre(0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2));
  EXPECT_THAT(devices("pp:zb-v"), ElementsAre(0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0));
}

TEST_F(BaselinesTest, BlocksBalanceByTimeWhenNothingFits) {
  EXPECT_THAT(groups_per_device(baseline("mp-blocks", graph_, cluster(Bytes(10)), costs_, 8)),
              groups_per_device(baseline("mp-blocks", graph_, cluster(), costs_, 8)));
}

}  // namespace
}  // namespace motley
