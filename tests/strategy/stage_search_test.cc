#include "strategy/stage_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "strategy/work.h"
#include "tests/strategy/setting.h"

namespace motley {
namespace {

constexpr BytesPerSecond kFast{1e12};
constexpr double kNever = std::numeric_limits<double>::infinity();

// How long the slowest device takes at best, when each of those has one sample at least; `seconds`: of a sample.
double least_time(const std::vector<double>& seconds, std::int64_t samples) {
  std::vector<std::int64_t> shares(seconds.size(), 1);
  if (samples < static_cast<std::int64_t>(shares.size())) return kNever;
  for (auto left = samples - static_cast<std::int64_t>(shares.size()); left > 0; --left) {
    std::size_t soonest = 0;
    const auto then = [&](std::size_t i) { return static_cast<double>(shares[i] + 1) * seconds[i]; };
    for (std::size_t i = 1; i < shares.size(); ++i) soonest = then(i) < then(soonest) ? i : soonest;
    ++shares[soonest];
  }
  double longest = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    longest = std::max(longest, static_cast<double>(shares[i]) * seconds[i]);
  }
  return longest;
}

// All cuts, and for each stage all sets of devices that no other has: (m - 1) max t + sum t at best.
class AllPipelines {
 public:
  AllPipelines(const Setting& setting, std::int64_t micro_batches)
      : micro_batches_(micro_batches),
        samples_(setting.batch / micro_batches),
        devices_(setting.cluster.devices.size()),
        work_(group_work(setting.graph, setting.cluster, setting.costs, 1)) {}

  double least() {
    stages_.clear();
    least_ = kNever;
    place(0, 0);
    return least_;
  }

 private:
  void place(std::size_t begin, std::uint32_t used) {
    if (begin == work_.size()) {
      double longest = 0, sum = 0;
      for (const double stage : stages_) {
        longest = std::max(longest, stage);
        sum += stage;
      }
      least_ = std::min(least_, static_cast<double>(micro_batches_ - 1) * longest + sum);
      return;
    }
    for (std::uint32_t set = 1; set < (1U << devices_); ++set) {
      if ((set & used) != 0) continue;
      for (std::size_t end = begin + 1; end <= work_.size(); ++end) {
        std::vector<double> seconds;
        for (std::size_t d = 0; d < devices_; ++d) {
          if ((set >> d & 1U) == 0) continue;
          seconds.push_back(0);
          for (std::size_t g = begin; g < end; ++g) seconds.back() += work_[g].seconds[d];
        }
        stages_.push_back(least_time(seconds, samples_));
        place(end, used | set);
        stages_.pop_back();
      }
    }
  }

  std::int64_t micro_batches_, samples_;
  std::size_t devices_;
  std::vector<GroupWork> work_;
  std::vector<double> stages_;
  double least_ = kNever;
};

TEST(StageSearchTest, FindsTheBestOfAllPipelines) {
  for (const std::vector<double>& speeds :
       {std::vector<double>{1, 0.5, 0.25}, {0.3, 1, 0.7, 0.2}, {1, 0.1}, {0.9, 0.8, 0.7}}) {
    for (const std::int64_t micro_batches : {1, 4, 16}) {
      Setting setting({.layers = 6, .width = 8}, speeds, kFast, 64);
      for (std::size_t o = 0; o < setting.graph.ops.size(); ++o) {
        setting.costs.seconds_per_sample[o] *= 1 + static_cast<double>(o % 5);
      }
      const Evaluator evaluator = setting.evaluator();
      const Chain chain(setting.graph);
      StageSearch search(evaluator, chain);
      double found = kNever;
      for (const PlannedPipeline& pipeline : search.run(micro_batches, 1, kNever)) {
        found = std::min(found, pipeline.seconds);
      }
      const double least = AllPipelines(setting, micro_batches).least();
      EXPECT_NEAR(found, least, 1e-6 * least) << micro_batches << " micro-batches";
    }
  }
}

// 64 samples, of which a device of speed 1 has 3 for each of one of speed 1/3: 16 in all, a whole number of times.
TEST(StageSearchTest, MicroBatchesGiveEvenSamples) {
  const Setting setting({.layers = 4, .width = 8}, {1, 1.0 / 3}, kFast, 64);
  const Evaluator evaluator = setting.evaluator();
  const Chain chain(setting.graph);
  StageSearch search(evaluator, chain);
  const std::vector<std::int64_t> numbers = search.micro_batches(64);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_TRUE(std::ranges::binary_search(numbers, 16));  // of 3 + 1
  for (const PlannedPipeline& pipeline : search.run(16, 1, kNever)) {
    if (pipeline.stages.size() > 1) continue;
    EXPECT_EQ(pipeline.stages[0].width, (std::vector<std::size_t>{1, 1}));
    EXPECT_EQ(pipeline.stages[0].samples, (std::vector<std::int64_t>{3, 1}));
  }
}

// Each device holds the model and a few samples, not its half of the batch: gradients are accumulated.
TEST(StageSearchTest, ABatchThatDoesNotFitIsPassedInParts) {
  const Setting roomy({.layers = 4, .width = 64}, {1, 1}, kFast, 64);
  const Evaluator all = roomy.evaluator();
  const Chain chain(roomy.graph);
  EXPECT_FALSE(StageSearch(all, chain).run(1, 1, kNever).empty());
  const Setting tight({.layers = 4, .width = 64}, {1, 1}, kFast, 64, Bytes(160 << 10));
  const Evaluator few = tight.evaluator();
  const auto one_stage = [](const PlannedPipeline& pipeline) {
    return pipeline.stages.size() == 1 && pipeline.stages[0].recompute == Recompute::kNone;
  };
  EXPECT_TRUE(std::ranges::none_of(StageSearch(few, chain).run(1, 1, kNever), one_stage));
  EXPECT_TRUE(std::ranges::any_of(StageSearch(few, chain).run(16, 1, kNever), one_stage));
}

}  // namespace
}  // namespace motley
