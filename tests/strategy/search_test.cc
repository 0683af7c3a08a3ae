#include "strategy/search/search.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "strategy/search/starts.h"
#include "tests/strategy/setting.h"

namespace motley {
namespace {

class SearchTest : public ::testing::Test {
 protected:
  static SearchResult search(const Setting& setting, std::int64_t evaluations = 300, std::uint64_t seed = 1,
                             int threads = 1) {
    const Evaluator evaluator = setting.evaluator();
    SearchOptions options;
    options.time = Seconds(1e6);
    options.evaluations = evaluations;
    options.seed = seed;
    options.threads = threads;
    return motley::search(evaluator, options);
  }
  static std::set<DeviceIndex> devices(const Strategy& strategy) {
    std::set<DeviceIndex> used;
    for (const GroupDecision& decision : strategy.groups) {
      for (const Share& share : decision.shares) used.insert(share.device);
    }
    return used;
  }
  static constexpr BytesPerSecond kFast{1e10}, kSlow{1e4};
};

TEST_F(SearchTest, ReachesTheIdealOfAComputeBoundModel) {
  // 1 : 0.5 : 0.25 together are 1.75 times the first device.
  const Setting setting({.layers = 8, .width = 16}, {1, 0.5, 0.25}, kFast, 128);
  const SearchResult result = search(setting);
  ASSERT_TRUE(result.best.feasible());
  EXPECT_LE(result.best.simulation.iteration.value, 1.03 * setting.seconds_on_one() / 1.75);
}

TEST_F(SearchTest, DropsDevicesBehindSlowLinks) {
  const Setting setting({.layers = 8, .width = 16}, {1, 0.5, 0.25}, kSlow, 16);
  EXPECT_EQ(devices(search(setting).best.strategy), std::set<DeviceIndex>{0});
}

TEST_F(SearchTest, FindsAModelParallelPlanWhenMemoryIsShort) {
  // A layer's weight of 64 x 64 floats, its gradient and momentum are 48 KiB, eight layers 384 KiB: no device of 250
  // KiB holds the model, all three do.
  const Setting setting({.layers = 8, .width = 64, .momentum = 0.9}, {1, 0.5, 0.25}, kFast, 16, Bytes(250 << 10));
  const SearchResult result = search(setting);
  ASSERT_TRUE(result.best.feasible());
  for (const Evaluation& baseline : result.baselines) {
    const std::string& name = baseline.strategy.name;
    EXPECT_EQ(baseline.feasible(), name == "mp-blocks" || name.starts_with("pp:")) << name;
  }
}

TEST_F(SearchTest, DataParallelismThatLacksMemoryPassesInMicroBatches) {
  // Of 32 samples a device keeps the input and eight activations of 2 KiB each beside 8.5 KiB of weights, and two
  // gradients of activations while it makes one of the other: 30.5 KiB. In four parts it is 5.5 KiB, with weights and
  // their gradients 22.5 KiB.
  const Setting setting({.layers = 8, .width = 16}, {1, 1}, kFast, 64, Bytes(28 << 10));
  const Evaluator evaluator = setting.evaluator();
  const Evaluation whole = evaluator.evaluate_baseline("ev-ar");
  ASSERT_FALSE(whole.feasible());
  bool fits = false;
  for (const Strategy& start : fitting_starts({whole}, setting.batch)) {
    for (std::size_t g = 0; g < start.groups.size(); ++g) {
      EXPECT_EQ(start.groups[g].shares, whole.strategy.groups[g].shares);
    }
    const Evaluation passed = evaluator.evaluate(start);
    fits = fits || (passed.feasible() && start.micro_batches > 1 && start.groups[0].recompute == Recompute::kNone);
  }
  EXPECT_TRUE(fits);
  EXPECT_TRUE(fitting_starts({evaluator.evaluate(search(setting).best.strategy)}, setting.batch).empty());
}

TEST_F(SearchTest, IsNeverWorseThanABaseline) {
  for (BytesPerSecond bandwidth : {kSlow, BytesPerSecond(1e6), kFast}) {
    const Setting setting({.layers = 5, .width = 32, .residual = true}, {1, 0.3}, bandwidth, 10);
    const SearchResult result = search(setting, 20);
    for (const Evaluation& baseline : result.baselines) EXPECT_FALSE(better(baseline, result.best));
  }
}

TEST_F(SearchTest, TheSameSeedGivesTheSamePlanOnAnyNumberOfThreads) {
  const Setting setting({.layers = 6, .width = 64}, {1, 0.5, 0.25}, BytesPerSecond(1e7), 32);
  const SearchResult one = search(setting, 200, 7, 1), three = search(setting, 200, 7, 3);
  EXPECT_EQ(one.best.strategy, three.best.strategy);
  EXPECT_EQ(one.evaluations, three.evaluations);
}

TEST_F(SearchTest, KeepsToItsBudgetButJudgesAllBaselines) {
  const Setting setting({.layers = 4}, {1, 0.5, 0.25}, kFast, 32);
  EXPECT_EQ(search(setting, 100).evaluations, 100);
  EXPECT_EQ(search(setting, 1).baselines.size(), 10U);
  EXPECT_EQ(search(setting, 1).evaluations, 10);
}

TEST_F(SearchTest, AStopEndsItWithTheBestSoFar) {
  const Setting setting({.layers = 4}, {1, 0.5, 0.25}, kFast, 32);
  std::stop_source stop;
  SearchOptions options;
  options.time = Seconds(1e6);
  options.stop = stop.get_token();
  options.progress = [&](const SearchProgress& progress) {
    if (progress.evaluations > 50) stop.request_stop();
  };
  const Evaluator evaluator = setting.evaluator();
  const SearchResult result = motley::search(evaluator, options);
  EXPECT_TRUE(result.best.feasible());
  EXPECT_LE(result.evaluations, 50 + 8);
}

TEST_F(SearchTest, ProgressOnlyImproves) {
  const Setting setting({.layers = 6, .width = 64}, {1, 0.5, 0.25}, BytesPerSecond(1e7), 32);
  const Evaluator evaluator = setting.evaluator();
  SearchOptions options;
  options.time = Seconds(1e6);
  options.evaluations = 150;
  double last = 1e300;
  options.progress = [&](const SearchProgress& progress) {
    EXPECT_LE(progress.best.simulation.iteration.value, last);
    last = progress.best.simulation.iteration.value;
  };
  motley::search(evaluator, options);
}

TEST_F(SearchTest, EndsWhenThereIsNothingElseToTry) {
  const Setting setting({.layers = 1}, {1}, kFast, 4);
  EXPECT_LT(search(setting, 1'000'000).evaluations, 1000);
}

TEST_F(SearchTest, EndsWhenTheBestIsAtTheBound) {
  // One sample cannot be divided, so the fastest device alone is best; "mp:n0/0" is among the baselines.
  const Setting setting({.layers = 8, .width = 16}, {1, 0.5}, kSlow, 1);
  const Evaluator evaluator = setting.evaluator();
  SearchOptions options;
  options.time = Seconds(1e6);
  options.evaluations = 1000;
  options.bound = Seconds(setting.seconds_on_one());
  EXPECT_LT(motley::search(evaluator, options).evaluations, 100);
  options.bound = options.bound * 0.99;
  EXPECT_EQ(motley::search(evaluator, options).evaluations, 1000);
}

TEST_F(SearchTest, ItsResultHasANameOfItsOwn) {
  const Setting setting({.layers = 2}, {1, 0.5}, kSlow, 1);  // no better than a baseline
  const SearchResult result = search(setting, 20);
  EXPECT_EQ(result.best.strategy.name, "search");
  for (const Evaluation& baseline : result.baselines) EXPECT_NE(baseline.strategy.name, "search");
}

TEST_F(SearchTest, NamesTheRunnersUp) {
  const Setting setting({.layers = 8, .width = 16}, {1, 0.5, 0.25}, kFast, 64);
  std::set<std::string> traits;
  const SearchResult result = search(setting);
  for (const Alternative& alternative : result.alternatives) {
    traits.insert(alternative.trait);
    EXPECT_FALSE(better(alternative.evaluation, result.best)) << alternative.trait;
  }
  for (const char* trait : {"all on one device", "all-reduce alone", "parameter servers alone", "without n0/0"}) {
    EXPECT_TRUE(traits.contains(trait)) << trait;
  }
}

}  // namespace
}  // namespace motley
