#include "strategy/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/chain_graph.h"
#include "tests/support/error_of.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Nodes of one processor each, so that collectives are Gloo's rings, around a switch.
constexpr const char* kStar = R"(nodes:
  - {name: n, count: 2, devices: {kind: cpu, memory: 1GiB}, peer: {bandwidth: 1000000TB/s, latency: 0}}
switches: [tor]
links:
  - {between: [n, tor], bandwidth: 1MB/s, latency: 0}
)";

class WhatIfTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBatch = 48;
  // Two layers of 256: 526,336 B of parameters, which one all-reduce sums.
  static constexpr double kBytes = 2 * (256 * 256 + 256) * 4;

  void SetUp() override { graph = support::chain_graph({.layers = 2, .width = 256}); }

  // One sample takes each op but an update so long on a device.
  CostMaker costs(double seconds) const {
    return [seconds](const Graph& of, const Cluster& cluster) {
      auto costs = std::make_unique<support::FixedCosts>(of, std::vector<double>(cluster.devices.size(), 1.0), seconds);
      for (std::size_t o = 0; o < of.ops.size(); ++o) {
        if (of.ops[o].kind == OpKind::kUpdate) costs->seconds_per_sample[o] = 0;
      }
      return costs;
    };
  }
  // ... and all ops of it.
  double per_sample(double seconds) const {
    double sum = 0;
    for (const Op& op : graph.ops) sum += op.kind == OpKind::kUpdate ? 0 : seconds;
    return sum;
  }

  static WhatIfCluster cluster(const std::string& yaml, const std::string& name = "c.yaml") {
    return {name, [=](const ClusterChanges& changes) { return parse_cluster(yaml, name, nullptr, changes); }};
  }

  WhatIf sweep(const std::vector<std::string>& vary, double seconds, std::vector<std::string> strategies = {"ev-ar"},
               const std::string& yaml = kStar) const {
    WhatIfOptions options;
    for (const std::string& text : vary) options.vary.push_back(parse_variation(text));
    options.strategies = std::move(strategies);
    return what_if(graph, {cluster(yaml)}, costs(seconds), kBatch, options);
  }
  static std::vector<double> seconds(const WhatIf& sweep) {
    std::vector<double> all;
    for (const Outcome& outcome : sweep.outcomes) all.push_back(outcome.iteration.value);
    return all;
  }
  static ::testing::Matcher<double> near(double value) { return ::testing::DoubleNear(value, 1e-6 * value); }

  Graph graph;
};

TEST_F(WhatIfTest, ComputeIsDividedByTheNodes) {
  const WhatIf found = sweep({"bandwidth=1TB/s", "nodes:n=1,2,4"}, 1);
  EXPECT_THAT(found.axes, ElementsAre("bandwidth", "nodes of n"));
  const double whole = kBatch * per_sample(1);
  EXPECT_THAT(seconds(found), ElementsAre(near(whole), near(whole / 2), near(whole / 4)));
  EXPECT_EQ(found.outcomes[2].devices, 4);
  EXPECT_THAT(found.outcomes[2].samples_per_second(), near(kBatch / (whole / 4)));
  EXPECT_THAT(found.outcomes[2].values, ElementsAre("1TB/s", "4"));
}

// Free compute: the ring of two sends 2 * 1/2 of the bytes each way, the ring of four 2 * 3/4.
TEST_F(WhatIfTest, AnAllReduceTakesItsBytesOverTheBandwidth) {
  EXPECT_THAT(seconds(sweep({"nodes:n=2,4", "bandwidth=1MB/s,x2,4MB/s"}, 0)),
              ElementsAre(near(kBytes / 1e6), near(kBytes / 2e6), near(kBytes / 4e6), near(1.5 * kBytes / 1e6),
                          near(1.5 * kBytes / 2e6), near(1.5 * kBytes / 4e6)));
  EXPECT_THAT(seconds(sweep({"bandwidth:n-1-tor=1MB/s,250kB/s"}, 0)),
              ElementsAre(near(kBytes / 1e6), near(kBytes / 25e4)))
      << "the slowest link counts";
  EXPECT_THAT(seconds(sweep({"bandwidth:n-*=x0.5"}, 0)), ElementsAre(near(kBytes / 5e5)));
}

TEST_F(WhatIfTest, HalfPrecisionHalvesTheBytes) {
  const WhatIf found = sweep({"dtype=f32,f16"}, 0);
  EXPECT_THAT(seconds(found), ElementsAre(near(kBytes / 1e6), near(kBytes / 2e6)));
  EXPECT_NEAR(found.outcomes[0].peak / found.outcomes[1].peak, 2, 1e-3);
}

TEST_F(WhatIfTest, ASlowerDeviceSetsThePaceOfEvenShares) {
  const double whole = kBatch * per_sample(1);
  const std::vector<std::string> vary = {"bandwidth=1TB/s", "speed:n-1/0=1,0.5"};
  EXPECT_THAT(seconds(sweep(vary, 1)), ElementsAre(near(whole / 2), near(whole)));
  // In proportion, it gets a third of the batch: 16 of 48.
  EXPECT_THAT(seconds(sweep(vary, 1, {"cp-ar"})), ElementsAre(near(whole / 2), near(whole * 2 / 3)));
  const WhatIf both = sweep(vary, 1, {"ev-ar", "cp-ar"});
  EXPECT_EQ(both.outcomes[0].strategy, "ev-ar") << "the first of equals";
  EXPECT_EQ(both.outcomes[1].strategy, "cp-ar");
}

TEST_F(WhatIfTest, ALostNodeLeavesTheOthersItsWork) {
  const WhatIf found = sweep({"bandwidth=1TB/s", "nodes:n=3", "lost=none,each"}, 1);
  const double whole = kBatch * per_sample(1);
  // "each" is of the file, which has two.
  EXPECT_THAT(seconds(found), ElementsAre(near(whole / 3), near(whole / 2), near(whole / 2)));
  EXPECT_EQ(found.outcomes[2].values[2], "n-1");
}

TEST_F(WhatIfTest, AClusterThatFallsApartIsAnOutcome) {
  const char* const line = R"(nodes:
  - {name: a, devices: {kind: cpu, memory: 1GiB}, peer: {bandwidth: 1GB/s, latency: 0}}
  - {name: b, devices: {kind: cpu, memory: 1GiB}, peer: {bandwidth: 1GB/s, latency: 0}}
  - {name: c, devices: {kind: cpu, memory: 1GiB}, peer: {bandwidth: 1GB/s, latency: 0}}
links:
  - {between: [a, b], bandwidth: 1GB/s, latency: 0}
  - {between: [b, c], bandwidth: 1GB/s, latency: 0}
)";
  const WhatIf found = sweep({"lost=a,b"}, 1, {"ev-ar"}, line);
  EXPECT_THAT(found.outcomes[0].reasons, IsEmpty());
  EXPECT_THAT(found.outcomes[1].reasons, ElementsAre(HasSubstr("no path of links joins a/0 and c/0")));
}

TEST_F(WhatIfTest, TheBatchMayOutgrowTheMemoryOrFallShortOfTheDevices) {
  std::string small = kStar;
  small.replace(small.find("1GiB"), 4, "3MiB");
  const WhatIf found = sweep({"batch=1,16,4096"}, 1, {"ev-ar"}, small);
  EXPECT_THAT(found.outcomes[0].reasons, ElementsAre(HasSubstr("2 replicas for a batch of 1")));
  EXPECT_THAT(found.outcomes[1].reasons, IsEmpty());
  EXPECT_THAT(found.outcomes[2].reasons[0], HasSubstr("of 3.00 MiB"));
  EXPECT_EQ(found.outcomes[2].samples_per_second(), 0);
  graph.max_batch = 8;
  EXPECT_THAT(support::error_of([&] { sweep({"batch=16"}, 1); }), HasSubstr("outside the model's range"));
}

TEST_F(WhatIfTest, SeveralClustersAreTheFirstAxis) {
  std::string three = kStar;
  three.replace(three.find("count: 2"), 8, "count: 3");
  WhatIfOptions options;
  options.vary = {parse_variation("bandwidth=1TB/s")};
  const WhatIf found =
      what_if(graph, {cluster(kStar, "two.yaml"), cluster(three, "three.yaml")}, costs(1), kBatch, options);
  EXPECT_THAT(found.axes, ElementsAre("cluster", "bandwidth"));
  EXPECT_THAT(found.outcomes[1].values, ElementsAre("three.yaml", "1TB/s"));
  EXPECT_EQ(found.outcomes[1].devices, 3);
}

TEST_F(WhatIfTest, TheAnswerDoesNotDependOnTheThreads) {
  WhatIfOptions options;
  options.vary = {parse_variation("nodes:n=1,2,3"), parse_variation("speed:n-0=1,0.5")};
  options.evaluations = 40;
  const auto answer = [&](int threads) {
    options.threads = threads;
    const WhatIf found = what_if(graph, {cluster(kStar)}, costs(1e-3), kBatch, options);
    std::vector<std::pair<std::string, double>> all;
    for (const Outcome& outcome : found.outcomes) all.emplace_back(outcome.strategy, outcome.iteration.value);
    return all;
  };
  EXPECT_EQ(answer(1), answer(8));
}

TEST_F(WhatIfTest, WhatCannotBeVariedIsSaid) {
  const auto refusal = [](const std::string& text) {
    return support::error_of([&] { parse_variation(text); }, ErrorKind::kInvalidInput);
  };
  EXPECT_THAT(refusal("bandwith=1Gbps"), HasSubstr("did you mean bandwidth?"));
  EXPECT_THAT(refusal("bandwidth=1Gbps,fast"), HasSubstr("not \"fast\""));
  EXPECT_THAT(refusal("bandwidth=x0"), HasSubstr("factors such as x2"));
  EXPECT_THAT(refusal("batch=0"), HasSubstr("1 or more"));
  EXPECT_THAT(refusal("batch:n=8"), HasSubstr("write batch=VALUE"));
  EXPECT_THAT(refusal("batch="), HasSubstr("not \"\""));
  EXPECT_THAT(refusal("batch"), HasSubstr("add = and whole numbers"));
  EXPECT_THAT(refusal("dtype=int8"), HasSubstr("f32, f16, bf16 or f64"));
  EXPECT_THAT(refusal("speed=2"), HasSubstr("speed:NAME=VALUE"));
  const auto unknown = [&](const std::string& text) {
    return support::error_of([&] { sweep({text}, 1); }, ErrorKind::kInvalidInput);
  };
  EXPECT_THAT(unknown("speed:n-2=0.5"), HasSubstr("c.yaml: nothing is called n-2"));
  EXPECT_THAT(unknown("bandwidth:n-0-torr=1Gbps"), HasSubstr("did you mean n-0-tor?"));
  EXPECT_THAT(unknown("nodes:m=2"), HasSubstr("there is no node m"));
  EXPECT_THAT(unknown("lost=m"), HasSubstr("there is no node m"));
  EXPECT_THAT(support::error_of([&] { sweep({}, 1, {"even"}); }), HasSubstr("unknown strategy \"even\""));
}

}  // namespace
}  // namespace motley
