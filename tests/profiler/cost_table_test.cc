#include "profiler/cost_table.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "profiler/catalogue.h"
#include "profiler/estimate.h"
#include "profiler/signature.h"
#include "tests/profiler/test_graph.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::HasSubstr;

class CostTableTest : public testing::Test {
 protected:
  // One device per kind, all on one node.
  static Cluster cluster(const std::vector<std::string>& kinds) {
    std::string devices;
    for (const std::string& kind : kinds) devices += "{kind: " + kind + ", memory: 1GiB, nvlink: none}, ";
    return parse_cluster("nodes: [{name: a, peer: {bandwidth: 1GB/s, latency: 0}, devices: [" + devices + "]}]",
                         "c.yaml", catalogue_defaults);
  }
  OpId op(const std::string& name) const {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (graph_.ops[i].name == name) return static_cast<OpId>(i);
    }
    throw std::out_of_range(name);
  }
  // Measures one op as `points` on a device of `kind`.
  Profile profile(const std::string& kind, const std::string& name, const std::vector<CurvePoint>& points,
                  const std::string& model = "model") const {
    const Signatures signatures = signatures_of(graph_);
    const Signature& signature = signatures.distinct[signatures.of_op[op(name)]];
    Profile made;
    made.fingerprint = {kind, model, 1, "2.14.1", ""};
    made.ops = {{signature.hash, signature.text, signature.dtype, points}};
    return made;
  }
  static CurvePoint point(std::int64_t batch, double seconds) {
    return {batch, Seconds(seconds), Seconds(seconds / 10), Bytes(100), Bytes(200), 5};
  }
  double estimated(const std::string& kind, const std::string& name, std::int64_t batch) const {
    return roofline(graph_, op(name), *find_kind(kind), batch).value;
  }

  const Graph graph_ = make_mlp(3, 256);
  ProfileStore store_{":memory:"};
};

TEST_F(CostTableTest, MeasuredFiguresWin) {
  store_.add(profile("T4", "layer1.mm", {point(2, 0.25), point(4, 0.5)}));
  const CostTable costs(graph_, cluster({"T4"}), &store_);
  const OpCost cost = costs.op(op("layer2.mm"), 0, 3);  // equal to layer1's
  EXPECT_TRUE(cost.measured);
  EXPECT_DOUBLE_EQ(cost.time.value, 0.375);
  EXPECT_DOUBLE_EQ(cost.spread.value, 0.0375);
  EXPECT_EQ(cost.kept.value, 100);
  EXPECT_EQ(cost.workspace.value, 200);
  EXPECT_EQ(costs.basis(0).measured, 1);
}

TEST_F(CostTableTest, FarFromThePointsIsNoMeasurement) {
  store_.add(profile("T4", "layer1.mm", {point(4, 0.25), point(8, 0.5)}));
  const CostTable costs(graph_, cluster({"T4"}), &store_);
  EXPECT_FALSE(costs.op(op("layer1.mm"), 0, 1).measured);
  EXPECT_TRUE(costs.op(op("layer1.mm"), 0, 2).measured);
  EXPECT_TRUE(costs.op(op("layer1.mm"), 0, 16).measured);
  EXPECT_FALSE(costs.op(op("layer1.mm"), 0, 17).measured);
}

TEST_F(CostTableTest, NobodyMeasuredMeansTheRoofline) {
  const CostTable costs(graph_, cluster({"T4", "V100-16GB"}), nullptr);
  for (const std::int64_t batch : {1, 64, 4096}) {  // powers of two are the curve's own points
    const OpCost cost = costs.op(op("layer1.mm"), 1, batch);
    EXPECT_DOUBLE_EQ(cost.time.value, estimated("V100-16GB", "layer1.mm", batch));
    EXPECT_FALSE(cost.measured);
  }
  EXPECT_LT(costs.op(op("layer1.mm"), 1, 4096).time, costs.op(op("layer1.mm"), 0, 4096).time);
  EXPECT_EQ(costs.basis(0).fingerprint, "");
}

TEST_F(CostTableTest, SameCardSlowedScalesExactly) {
  store_.add(profile("cpu", "layer1.mm", {point(8, 0.25)}));
  const CostTable costs(graph_, cluster({"cpu@0.5"}), &store_);
  EXPECT_NEAR(costs.op(op("layer1.mm"), 0, 8).time.value, 0.5, 1e-12);
  EXPECT_FALSE(costs.op(op("layer1.mm"), 0, 8).measured);
  EXPECT_EQ(costs.basis(0).scaled_from, "cpu");
  EXPECT_EQ(costs.basis(0).scaled, 1);
}

TEST_F(CostTableTest, OtherCardsScaleByTheirRooflines) {
  store_.add(profile("T4", "layer1.mm", {point(8, 0.25)}));
  store_.add(profile("cpu", "layer1.mm", {point(8, 77)}));  // tells nothing of a GPU
  const CostTable costs(graph_, cluster({"V100-16GB"}), &store_);
  const double quotient = estimated("V100-16GB", "layer1.mm", 8) / estimated("T4", "layer1.mm", 8);
  EXPECT_NEAR(costs.op(op("layer1.mm"), 0, 8).time.value, 0.25 * quotient, 1e-12);
}

TEST_F(CostTableTest, EstimatesAreCalibratedOnTheDevice) {
  store_.add(profile("T4", "layer1.relu", {point(16, 3 * estimated("T4", "layer1.relu", 16))}));
  const CostTable costs(graph_, cluster({"T4"}), &store_);
  EXPECT_NEAR(costs.op(op("layer1.mm"), 0, 64).time.value, 3 * estimated("T4", "layer1.mm", 64), 1e-12);
}

TEST_F(CostTableTest, FingerprintsDoNotMix) {
  store_.add(profile("cpu", "layer1.mm", {point(8, 0.25)}, "old processor"));
  store_.add(profile("cpu", "layer1.mm", {point(8, 0.125)}, "new processor"));
  const Cluster one = cluster({"cpu", "cpu"});
  CostTableOptions options;
  options.fingerprints["a/1"] = {"cpu", "old processor", 1, "2.14.1", ""};
  const CostTable costs(graph_, one, &store_, options);
  EXPECT_DOUBLE_EQ(costs.op(op("layer1.mm"), 0, 8).time.value, 0.125) << "the most recent";
  EXPECT_DOUBLE_EQ(costs.op(op("layer1.mm"), 1, 8).time.value, 0.25) << "its own";
}

TEST_F(CostTableTest, NewSoftwareFallsBackOnTheOld) {
  store_.add(profile("T4", "layer1.mm", {point(8, 0.25)}));
  CostTableOptions options;
  options.fingerprints["a/0"] = {"T4", "model", 1, "3.0", ""};
  const CostTable costs(graph_, cluster({"T4"}), &store_, options);
  EXPECT_NEAR(costs.op(op("layer1.mm"), 0, 8).time.value, 0.25, 1e-12);
  EXPECT_FALSE(costs.op(op("layer1.mm"), 0, 8).measured);
}

TEST_F(CostTableTest, DeviceCostsAreMeasuredOrNominal) {
  Profile measured = profile("T4", "layer1.mm", {point(8, 0.25)});
  measured.device = {Seconds(1e-6), BytesPerSecond(1e9), Bytes(77), Seconds(4e-6)};
  measured.messages = {Seconds(2e-6), Seconds(3e-6), Seconds(1e-9), Seconds(5e-3)};
  store_.add(measured);
  const CostTable costs(graph_, cluster({"T4", "cpu"}), &store_);
  EXPECT_DOUBLE_EQ(costs.memory_pass(0, Bytes(1000)).value, 1e-6 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.messages(0).overhead.value, 2e-6);
  EXPECT_DOUBLE_EQ(costs.messages(0).work.value, 3e-6);
  EXPECT_DOUBLE_EQ(costs.messages(0).work_per_byte.value, 1e-9);
  EXPECT_DOUBLE_EQ(costs.messages(0).pause.value, 5e-3);
  EXPECT_EQ(costs.messages(1).overhead, find_kind("cpu")->message);
  EXPECT_EQ(costs.messages(1).work, Seconds(0));
  EXPECT_EQ(costs.context(0).value, 77);
  EXPECT_EQ(costs.dispatch(0), Seconds(4e-6));
  EXPECT_EQ(costs.context(1), find_kind("cpu")->context);
  // 10 GB/s at 0.8, read and written: 4 GB/s.
  EXPECT_DOUBLE_EQ(costs.memory_pass(1, Bytes(4'000'000)).value, find_kind("cpu")->launch.value + 1e-3);
}

TEST_F(CostTableTest, UnknownKindIsAnErrorUnlessProfiled) {
  const std::string message =
      support::error_of([&] { CostTable(graph_, cluster({"V100-16G"}), nullptr); }, ErrorKind::kNotFound);
  EXPECT_THAT(message, AllOf(HasSubstr("a/0"), HasSubstr("did you mean V100-16GB?")));
  store_.add(profile("mine", "layer1.mm", {point(8, 0.25)}));
  const CostTable costs(graph_, cluster({"mine"}), &store_);
  EXPECT_DOUBLE_EQ(costs.op(op("layer1.mm"), 0, 8).time.value, 0.25);
}

TEST_F(CostTableTest, UpdatesDoNotDependOnTheBatch) {
  const CostTable costs(graph_, cluster({"T4"}), nullptr);
  const OpId update = op("layer1.weight.update");
  EXPECT_EQ(costs.op(update, 0, 1).time, costs.op(update, 0, 999).time);
}

TEST_F(CostTableTest, RealRunsCorrectWhatWasProfiled) {
  // Runs at 2 and 8 took 1.5 and 2 times what the profile says there.
  store_.add(profile("T4", "layer1.mm", {point(1, 0.1), point(16, 1.6)}));
  Profile seen = profile("T4", "layer1.mm", {point(2, 0.3), point(8, 1.6)});
  seen.origin = Origin::kTimeline;
  store_.add(seen);
  const CostTable costs(graph_, cluster({"T4"}), &store_);
  const auto seconds = [&](std::int64_t batch) { return costs.op(op("layer1.mm"), 0, batch).time.value; };
  EXPECT_NEAR(seconds(1), 0.15, 1e-12);
  EXPECT_NEAR(seconds(2), 0.3, 1e-12);
  EXPECT_NEAR(seconds(4), (0.3 + (1.6 - 0.3) / 3), 1e-12);  // a curve is linear between the batches that it knows
  EXPECT_NEAR(seconds(8), 1.6, 1e-12);
  EXPECT_NEAR(seconds(16), 3.2, 1e-12);
  EXPECT_EQ(costs.op(op("layer1.mm"), 0, 8).kept.value, 100);  // as profiled
}

TEST_F(CostTableTest, WhatWasNeverProfiledIsKnownFromRuns) {
  Profile seen = profile("T4", "layer1.mm", {point(4, 0.5)});
  seen.origin = Origin::kTimeline;
  store_.add(seen);
  const CostTable costs(graph_, cluster({"T4"}), &store_);
  EXPECT_DOUBLE_EQ(costs.op(op("layer1.mm"), 0, 4).time.value, 0.5);
}

}  // namespace
}  // namespace motley
