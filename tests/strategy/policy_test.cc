#include "strategy/policy/policy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "strategy/policy/random_cluster.h"
#include "strategy/policy/random_model.h"
#include "strategy/policy/training_case.h"
#include "strategy/search/moves.h"
#include "strategy/search/search.h"
#include "tests/strategy/setting.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;

class PolicyTest : public testing::Test {
 protected:
  static constexpr BytesPerSecond kMiddling{1e7};

  // The same machines and costs with the devices in another order; `order[i]` is the old index of the new device i.
  static Setting permuted(const std::vector<double>& speeds, const std::vector<int>& order) {
    std::vector<double> moved;
    moved.reserve(order.size());
    for (const int device : order) moved.push_back(speeds[static_cast<std::size_t>(device)]);
    return {{.layers = 6, .width = 64}, moved, kMiddling, 60};
  }
  static void expect_sound(const std::vector<Strategy>& strategies, const Evaluator& evaluator) {
    for (const Strategy& strategy : strategies) {
      const Evaluation evaluation = evaluator.evaluate(strategy);  // throws what does not fit graph or cluster
      EXPECT_EQ(evaluation.strategy, in_samples(evaluation.strategy, evaluator.batch()));
    }
  }
};

TEST_F(PolicyTest, PermutingTheDevicesPermutesTheProposal) {
  const std::vector<double> speeds = {1, 0.5, 0.25, 0.7};
  const std::vector<int> order = {2, 0, 3, 1};
  const Setting here({.layers = 6, .width = 64}, speeds, kMiddling, 60), there = permuted(speeds, order);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Policy policy(seed);
    const Evaluator a = here.evaluator(), b = there.evaluator();
    const Strategy one = policy.guide(a)->propose(1, 1).front(), two = policy.guide(b)->propose(1, 1).front();
    EXPECT_EQ(one.micro_batches, two.micro_batches);
    for (std::size_t g = 0; g < one.groups.size(); ++g) {
      GroupDecision moved = two.groups[g];
      for (Share& share : moved.shares) share.device = order[static_cast<std::size_t>(share.device)];
      std::ranges::sort(moved.shares, {}, &Share::device);
      EXPECT_EQ(one.groups[g], moved) << "group " << g << ", weights " << seed;
    }
  }
}

TEST_F(PolicyTest, TheScaleOfTimesMeansNothing) {
  Setting slow({.layers = 6, .width = 64}, {1, 0.5, 0.25}, kMiddling, 60);
  const Evaluator a = slow.evaluator();
  // Everything takes a 1,024th of the time: ops, bytes on links, latencies.
  Setting fast({.layers = 6, .width = 64}, {1024, 512, 256}, kMiddling * 1024, 60);
  for (Link& link : fast.cluster.links) link.latency = link.latency / 1024;
  const Evaluator b = fast.evaluator();
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Policy policy(seed);
    EXPECT_EQ(policy.guide(a)->propose(4, 7), policy.guide(b)->propose(4, 7));
  }
}

TEST_F(PolicyTest, WhatDoesNotFitIsNotProposed) {
  // Two devices of 100 KiB beside one that holds all eight layers of 48 KiB: on the small ones two layers are the most.
  Setting setting({.layers = 8, .width = 64, .momentum = 0.9}, {1, 1, 1}, kMiddling, 16, Bytes(100 << 10));
  setting.cluster.devices[2].memory = Bytes(64 << 20);
  const Evaluator evaluator = setting.evaluator();
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const Strategy& strategy : Policy(seed).guide(evaluator)->propose(8, seed)) {
      std::vector<int> layers(3, 0);
      for (const GroupDecision& group : strategy.groups) {
        for (const Share& share : group.shares) ++layers[static_cast<std::size_t>(share.device)];
      }
      EXPECT_LE(layers[0], 2);
      EXPECT_LE(layers[1], 2);
    }
  }
}

TEST_F(PolicyTest, ProposalsAreSoundForAnyModelAndCluster) {
  for (std::uint64_t number = 1; number <= 12; ++number) {
    const TrainingCase one({}, number);
    const auto guide = Policy(number).guide(one.evaluator());
    const std::vector<Strategy> proposals = guide->propose(4, number);
    EXPECT_EQ(proposals.size(), 4U);
    expect_sound(proposals, one.evaluator());
    EXPECT_EQ(proposals, guide->propose(4, number));  // the same seed
  }
}

TEST_F(PolicyTest, AResampledPartLeavesTheRest) {
  const Setting setting({.layers = 8, .width = 64}, {1, 0.5, 0.25}, kMiddling, 60);
  const Evaluator evaluator = setting.evaluator();
  Strategy from = in_samples(evaluator.evaluate_baseline("cp-ar").strategy, 60);
  from.groups[0].shares = {{1, 60}};
  const auto guide = Policy(3).guide(evaluator);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<GroupId> groups = {5, 3, 4};
    const std::vector<GroupDecision> decisions = guide->resample(from, groups, seed);
    ASSERT_EQ(decisions.size(), 3U);
    Strategy changed = from;
    for (std::size_t i = 0; i < groups.size(); ++i) changed.groups[static_cast<std::size_t>(groups[i])] = decisions[i];
    expect_sound({changed}, evaluator);
  }
}

TEST_F(PolicyTest, ResampledStagesFlowForward) {
  const Setting setting({.layers = 8, .width = 64}, {1, 1, 1, 1}, kMiddling, 64);
  const Evaluator evaluator = setting.evaluator();
  const Strategy from = in_samples(evaluator.evaluate_baseline("pp:1f1b").strategy, 64);
  const auto guide = Policy(3).guide(evaluator);
  for (GroupId begin = 0; begin < 7; ++begin) {
    const std::vector<GroupId> groups = {begin, begin + 1};
    const std::vector<GroupDecision> decisions = guide->resample(from, groups, 1);
    Strategy changed = from;
    for (std::size_t i = 0; i < groups.size(); ++i) changed.groups[static_cast<std::size_t>(groups[i])] = decisions[i];
    for (std::size_t g = 1; g < changed.groups.size(); ++g) {
      EXPECT_GE(changed.groups[g].stage, changed.groups[g - 1].stage);
    }
    if (!has_gap(changed)) expect_sound({changed}, evaluator);
  }
}

TEST_F(PolicyTest, ASearchWithAPriorIsNeverWorseThanABaselineAndDoesNotDependOnThreads) {
  const Setting setting({.layers = 6, .width = 64}, {1, 0.5, 0.25}, kMiddling, 32);
  const Evaluator evaluator = setting.evaluator();
  const Policy policy(9);
  const auto searched = [&](int threads) {
    SearchOptions options;
    options.time = Seconds(1e6);
    options.evaluations = 150;
    options.threads = threads;
    options.prior = &policy;
    return search(evaluator, options);
  };
  const SearchResult one = searched(1), three = searched(3);
  EXPECT_EQ(one.best.strategy, three.best.strategy);
  EXPECT_EQ(one.evaluations, three.evaluations);
  for (const Evaluation& baseline : one.baselines) EXPECT_FALSE(better(baseline, one.best));
}

TEST_F(PolicyTest, ABadWeightsFileIsNamed) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "w.safetensors";
  EXPECT_THAT(support::error_of([&] { Policy{path}; }), HasSubstr("w.safetensors"));
  write_file_atomically(path.string(), std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(support::error_of([&] { Policy{path}; }), HasSubstr("w.safetensors: has no \"group_in.weight\""));
}

TEST(RandomCasesTest, AreTheSameForASeedAndVaryBetweenSeeds) {
  std::set<std::string> fingerprints;
  std::set<std::size_t> devices;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Graph graph = random_model(seed);
    EXPECT_EQ(graph.fingerprint, random_model(seed).fingerprint);
    EXPECT_LE(graph.groups.size(), 48U);
    fingerprints.insert(graph.fingerprint);
    const Cluster cluster = random_cluster(seed);
    EXPECT_EQ(to_yaml(cluster), to_yaml(random_cluster(seed)));
    EXPECT_GE(cluster.devices.size(), 1U);
    EXPECT_LE(cluster.devices.size(), 16U);
    devices.insert(cluster.devices.size());
  }
  EXPECT_EQ(fingerprints.size(), 40U);
  EXPECT_GT(devices.size(), 8U);
}

}  // namespace
}  // namespace motley
