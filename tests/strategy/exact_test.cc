#include "strategy/search/exact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "strategy/search/moves.h"
#include "strategy/search/search.h"
#include "tests/strategy/setting.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

// All strategies of the space, one after the other.
double least_of_all(const Evaluator& evaluator) {
  const std::size_t devices = evaluator.cluster().devices.size(), groups = evaluator.graph().groups.size();
  std::vector<double> seconds = iteration_seconds(
      group_work(evaluator.graph(), evaluator.cluster(), evaluator.costs(), evaluator.batch()), evaluator.cluster());
  std::vector<GroupDecision> choices;
  for (std::uint32_t bits = 1; bits < (1U << devices); ++bits) {
    for (const bool by_speed : {false, true}) {
      for (const GradientMethod method : {GradientMethod::kAllReduce, GradientMethod::kParameterServer}) {
        GroupDecision decision{.gradient = method};
        for (std::size_t d = 0; d < devices; ++d) {
          const auto device = static_cast<DeviceIndex>(d);
          if ((bits >> d & 1U) != 0) decision.shares.push_back({device, by_speed ? 1 / seconds[d] : 1});
        }
        if (decision.shares.size() > 1 || (!by_speed && method == GradientMethod::kAllReduce)) {
          choices.push_back(decision);
        }
      }
    }
  }
  Strategy strategy{.groups = std::vector<GroupDecision>(groups)};
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> digits(groups, 0);
  for (std::size_t place = 0; place < groups;) {
    for (std::size_t g = 0; g < groups; ++g) strategy.groups[g] = choices[digits[g]];
    const Evaluation one = evaluator.evaluate(strategy);
    if (one.feasible()) least = std::min(least, one.simulation.iteration.value);
    for (place = 0; place < groups && ++digits[place] == choices.size(); ++place) digits[place] = 0;
  }
  return least;
}

TEST(ExactTest, IsTheLeastOfAllStrategiesOfTheSpace) {
  for (const double bandwidth : {1e5, 1e6, 1e7, 1e9}) {
    for (const std::vector<double>& speeds : {std::vector<double>{1, 1}, {1, 0.4}}) {
      const Setting setting({.layers = 4, .width = 32}, speeds, BytesPerSecond(bandwidth), 9);
      const Evaluator evaluator = setting.evaluator();
      const ExactResult found = exact_optimum(evaluator, {});
      EXPECT_TRUE(found.proved);
      EXPECT_DOUBLE_EQ(found.best.simulation.iteration.value, least_of_all(evaluator));
    }
    const Setting setting({.layers = 2, .width = 32, .tied = true}, {1, 1, 0.5}, BytesPerSecond(bandwidth), 12);
    const Evaluator evaluator = setting.evaluator();
    EXPECT_DOUBLE_EQ(exact_optimum(evaluator, {}).best.simulation.iteration.value, least_of_all(evaluator));
  }
}

// Of 6^6 strategies; most would leave the fast device idle.
TEST(ExactTest, CutsBranchesThatCannotBeBetter) {
  const Setting setting({.layers = 6, .width = 32}, {1, 0.1}, BytesPerSecond(1e6), 9);
  const ExactResult found = exact_optimum(setting.evaluator(), {});
  EXPECT_TRUE(found.proved);
  EXPECT_LT(found.evaluations, 6 * 6 * 6 * 6 * 6 * 6 / 10);
}

TEST(ExactTest, WithoutTimeNothingIsProved) {
  const Setting setting({.layers = 6, .width = 32}, {1, 0.4}, BytesPerSecond(1e7), 9);
  const ExactResult found = exact_optimum(setting.evaluator(), {.time = Seconds(0)});
  EXPECT_FALSE(found.proved);
  EXPECT_TRUE(found.best.feasible());
}

TEST(ExactTest, LargeCasesAreRefused) {
  const Setting setting({.layers = 11}, {1, 1}, BytesPerSecond(1e7), 9);
  const std::string message =
      support::error_of([&] { exact_optimum(setting.evaluator(), {}); }, ErrorKind::kInvalidInput);
  EXPECT_THAT(message, ::testing::HasSubstr("at most 10 op groups and 4 devices, and here are 11 and 2"));
}

// The search knows more strategies than the space has; it is held to within 2 % of the best of those.
TEST(ExactTest, TheSearchComesClose) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10; ++i) {
    const Setting setting = random_small_setting(random);
    const Evaluator evaluator = setting.evaluator();
    const ExactResult exact = exact_optimum(evaluator, {});
    SearchOptions options;
    options.time = Seconds(1e6);
    options.evaluations = 3000;
    const SearchResult found = search(evaluator, options);
    if (!exact.best.feasible()) continue;
    EXPECT_LE(found.best.simulation.iteration / exact.best.simulation.iteration, 1.02) << i;
  }
}

}  // namespace
}  // namespace motley
