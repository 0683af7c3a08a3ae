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
using ::testing::Pair;

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
  static CostMaker costs(double seconds, bool measured = true) {
    return [=](const Graph& of, const Cluster& cluster) {
      auto costs = std::make_unique<support::FixedCosts>(of, std::vector<double>(cluster.devices.size(), 1.0), seconds);
      for (std::size_t o = 0; o < of.ops.size(); ++o) {
        if (of.ops[o].kind == OpKind::kUpdate) costs->seconds_per_sample[o] = 0;
      }
      costs->measured = measured;
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
  options.draws = 10;
  const auto answer = [&](int threads) {
    options.threads = threads;
    const WhatIf found = what_if(graph, {cluster(kStar)}, costs(1e-3, false), kBatch, options);
    std::vector<std::pair<std::string, double>> all;
    for (const Outcome& outcome : found.outcomes) {
      all.emplace_back(outcome.strategy, outcome.iteration.value);
      all.insert(all.end(), outcome.bottlenecks.begin(), outcome.bottlenecks.end());
      for (const Remedy& remedy : outcome.remedies) all.emplace_back(remedy.change, remedy.iteration.value);
      all.emplace_back("median", outcome.noise->median.value);
      all.emplace_back("p95", outcome.noise->p95.value);
    }
    return all;
  };
  EXPECT_EQ(answer(1), answer(8));
}

TEST_F(WhatIfTest, ComputeIsTheBottleneckOfFastLinksAndLinksOfSlowOnes) {
  // 48 samples on two take 24 per_sample(1e-3); their gradients 0.526 s at 1 MB/s, and next to nothing at 1 TB/s.
  const double compute = 24 * per_sample(1e-3), wire = kBytes / 1e6;
  const WhatIf found = sweep({"bandwidth=1MB/s,1TB/s"}, 1e-3);
  const Outcome& slow = found.outcomes[0];
  ASSERT_EQ(slow.bottlenecks.size(), 2u);
  EXPECT_EQ(slow.bottlenecks[0].first, "link n-0-tor and 1 like it");
  EXPECT_EQ(slow.bottlenecks[1].first, "compute of cpu");
  EXPECT_THAT(slow.bottlenecks[0].second + slow.bottlenecks[1].second, near(1));
  EXPECT_EQ(found.outcomes[1].bottlenecks[0].first, "compute of cpu");
  EXPECT_GT(found.outcomes[1].bottlenecks[0].second, 0.9999);
  // Compute overlaps the only bucket by nothing: it is filled by the last gradient.
  EXPECT_THAT(slow.iteration.value, near(compute + wire));
  EXPECT_THAT(slow.remedies[0].iteration.value, near(compute + wire / 2));
  EXPECT_EQ(slow.remedies[0].change, "twice the bandwidth of link n-0-tor and 1 like it");
  EXPECT_THAT(slow.remedies[1].iteration.value, near(compute / 2 + wire));
}

TEST_F(WhatIfTest, LatencyIsTheBottleneckOfManySmallSteps) {
  // The ring's 2 (n - 1) = 6 steps of two links of 1 s each.
  std::string far = kStar;
  far.replace(far.find("1MB/s, latency: 0"), 17, "1TB/s, latency: 1s");
  const WhatIf found = sweep({"nodes:n=4"}, 0, {"ev-ar"}, far);
  EXPECT_EQ(found.outcomes[0].bottlenecks[0].first, "latency and overhead of messages");
  EXPECT_THAT(found.outcomes[0].iteration.value, near(12));
  EXPECT_EQ(found.outcomes[0].remedies[0].change, "half the latency and overhead of messages");
  EXPECT_THAT(found.outcomes[0].remedies[0].iteration.value, near(6));
}

TEST_F(WhatIfTest, MemoryIsTheBottleneckOfWhatDoesNotFit) {
  std::string small = kStar;
  small.replace(small.find("1GiB"), 4, "3MiB");
  const WhatIf found = sweep({"batch=1024,65536"}, 1, {"ev-ar"}, small);
  ASSERT_FALSE(found.outcomes[0].feasible());
  EXPECT_THAT(found.outcomes[0].bottlenecks, ElementsAre(Pair("memory of cpu", 0)));
  ASSERT_EQ(found.outcomes[0].remedies.size(), 1u);
  EXPECT_EQ(found.outcomes[0].remedies[0].change, "twice the memory of all devices");
  EXPECT_GT(found.outcomes[0].remedies[0].iteration.value, 0) << "2.x of 3 MiB more than there is";
  EXPECT_EQ(found.outcomes[1].remedies[0].iteration.value, 0) << "far too large";
}

// 1, 2 and 4 nodes at 2.5 an hour each; n do 48 samples in 48 per_sample(1e-2) / n.
TEST_F(WhatIfTest, TheCheapestIsTheLeastPriceThatSuffices) {
  const WhatIf found =
      sweep({"bandwidth=1TB/s", "nodes:n=1,4,2"}, 1e-2, {"ev-ar"}, "prices: {cpu: 2.5}\n" + std::string(kStar));
  const double one = 1 / per_sample(1e-2);
  EXPECT_EQ(cheapest(found, 0.9 * one), &found.outcomes[0]);
  EXPECT_EQ(cheapest(found, 1.5 * one), &found.outcomes[2]);
  EXPECT_EQ(cheapest(found, 1.5 * one)->price, 5.0);
  EXPECT_EQ(cheapest(found, 3 * one), &found.outcomes[1]);
  EXPECT_EQ(cheapest(found, 5 * one), nullptr);
  EXPECT_EQ(cheapest(sweep({}, 1), 1e-9), nullptr) << "no prices";
}

// Estimated costs that deviate by a tenth. Of n devices that wait for each other the slowest counts: with luck at most
// z for all n, P = Phi(z)^n. For n = 1 the median is at z = 0 and the 95th percentile at 1.645; for n = 16 at
// Phi^-1(0.5^(1/16)) = 1.718 and Phi^-1(0.95^(1/16)) = 2.728.
TEST_F(WhatIfTest, TheSlowestOfMoreDevicesIsSlower) {
  WhatIfOptions options;
  options.vary = {parse_variation("bandwidth=1TB/s"), parse_variation("nodes:n=1,16")};
  options.strategies = {"ev-ar"};
  options.draws = 4000;
  options.noise = 0.1;
  options.remedies = false;
  const WhatIf found = what_if(graph, {cluster(kStar)}, costs(1, false), kBatch, options);
  const auto over = [](const Outcome& outcome, Seconds drawn) { return (drawn / outcome.iteration - 1) / 0.1; };
  const Outcome& one = found.outcomes[0];
  const Outcome& many = found.outcomes[1];
  EXPECT_NEAR(over(one, one.noise->median), 0, 0.06);
  EXPECT_NEAR(over(one, one.noise->p95), 1.645, 0.12);
  EXPECT_NEAR(over(many, many.noise->median), 1.718, 0.06);
  EXPECT_NEAR(over(many, many.noise->p95), 2.728, 0.12);
}

TEST_F(WhatIfTest, MeasuredCostsDeviateByTheirOwnSpread) {
  WhatIfOptions options;
  options.vary = {parse_variation("nodes:n=1")};
  options.strategies = {"ev-ar"};
  options.draws = 200;
  options.noise = 0.5;
  const WhatIf found = what_if(graph, {cluster(kStar)}, costs(1), kBatch, options);
  // FixedCosts are measured, and spread by nothing.
  EXPECT_EQ(found.outcomes[0].noise->median, found.outcomes[0].iteration);
  EXPECT_EQ(found.outcomes[0].noise->p95, found.outcomes[0].iteration);
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
