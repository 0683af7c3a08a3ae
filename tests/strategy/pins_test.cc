#include "strategy/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "strategy/planner.h"
#include "strategy/search/exact.h"
#include "tests/strategy/setting.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using ::testing::HasSubstr;

class PinsTest : public ::testing::Test {
 protected:
  Pins pins(const std::vector<std::string>& pinned, const std::vector<std::string>& without = {}) const {
    return {setting_.graph, setting_.cluster, pinned, without};
  }
  std::string refusal(const std::vector<std::string>& pinned, const std::vector<std::string>& without = {}) const {
    return support::error_of([&] { pins(pinned, without); }, ErrorKind::kInvalidInput);
  }
  // Groups l0 to l4 on n0/0, n1/0 and n2/0.
  Setting setting_{{.layers = 5, .width = 16}, {1, 0.5, 0.25}, BytesPerSecond(1e9), 28};
};

TEST_F(PinsTest, NameDevicesAndNodes) {
  const Pins some = pins({"l0=n1/0,n2", "l[34]=n0"});
  for (const DeviceIndex device : {0, 1, 2}) {
    EXPECT_EQ(some.may(0, device), device > 0);
    EXPECT_TRUE(some.may(1, device));
    EXPECT_EQ(some.may(3, device), device == 0);
    EXPECT_EQ(some.may(4, device), device == 0);
  }
  const Pins fewer = pins({"l*=n1,n2"}, {"n2/0"});
  for (GroupId group = 0; group < 5; ++group) EXPECT_TRUE(fewer.may(group, 1) && !fewer.may(group, 2));
  EXPECT_FALSE(fewer.may(2));
}

TEST_F(PinsTest, WhatIsNotThereIsRefused) {
  EXPECT_THAT(refusal({"l7=n0"}), HasSubstr("no op group or module is called \"l7\""));
  EXPECT_THAT(refusal({"l0=n7"}), HasSubstr("\"n7\" is no device or node of the cluster"));
  EXPECT_THAT(refusal({}, {"n1/1"}), HasSubstr("\"n1/1\" is no device or node of the cluster (did you mean n1/0?)"));
  for (const char* nothing : {"l0", "=n0", "l0="}) EXPECT_THAT(refusal({nothing}), HasSubstr("pins nothing"));
}

TEST_F(PinsTest, ThatLeaveNothingAreRefused) {
  EXPECT_THAT(refusal({"l1=n0", "l*=n1"}), HasSubstr("leave no device for op group l1"));
  EXPECT_THAT(refusal({"l1=n0"}, {"n0"}), HasSubstr("leave no device for op group l1"));
  EXPECT_THAT(refusal({}, {"n0", "n1", "n2"}), HasSubstr("leave no device for op group l0"));
}

// Whatever is asked for: the plan, the fixed strategies and the runners-up keep to it.
TEST_F(PinsTest, PlansObey) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> cases = {
      {{}, {"n0"}}, {{"l0=n2"}, {}}, {{"l[123]=n1,n2"}, {"n0"}}, {{"l0=n0", "l4=n1"}, {"n2"}}, {{"l*=n1/0"}, {}}};
  for (const bool small : {false, true}) {
    if (small) {  // a layer's weight, its gradient and activations, of which a device holds two
      for (Device& device : setting_.cluster.devices) device.memory = Bytes(30000);
    }
    for (const auto& [pinned, without] : cases) {
      const Pins asked = pins(pinned, without);
      SearchOptions options;
      options.time = Seconds(1e6);
      options.evaluations = 400;
      options.pins = &asked;
      const Plan plan = motley::plan(setting_.graph, setting_.cluster, setting_.costs, setting_.batch, options);
      EXPECT_TRUE(asked.obeyed_by(plan.chosen.strategy));
      EXPECT_FALSE(plan.chosen.not_compilable);
      for (const Evaluation& fixed : plan.baselines) EXPECT_TRUE(asked.obeyed_by(fixed.strategy));
      for (const RunnerUp& other : plan.runners_up) EXPECT_TRUE(asked.obeyed_by(other.evaluation.strategy));
    }
  }
}

// Without the fast device, the others share all in proportion to their speeds.
TEST_F(PinsTest, ThePlanIsGoodWithWhatIsLeft) {
  const Pins asked = pins({}, {"n0"});
  SearchOptions options;
  options.time = Seconds(1e6);
  options.evaluations = 400;
  options.pins = &asked;
  const Plan plan = motley::plan(setting_.graph, setting_.cluster, setting_.costs, setting_.batch, options);
  EXPECT_LE(plan.chosen.simulation.iteration.value, 1.05 * setting_.seconds_on_one() / 0.75);
}

TEST_F(PinsTest, TheExactOptimumObeys) {
  Setting two({.layers = 3, .width = 16}, {1, 0.5}, BytesPerSecond(1e9), 28);
  const Pins asked(two.graph, two.cluster, {"l1=n1"}, {});
  const ExactResult found = exact_optimum(two.evaluator(), {.pins = &asked});
  EXPECT_TRUE(found.proved);
  EXPECT_TRUE(asked.obeyed_by(found.best.strategy));
}

}  // namespace
}  // namespace motley
