#include "profiler/measure.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "base/control_group.h"
#include "base/error.h"
#include "profiler/catalogue.h"
#include "profiler/signature.h"
#include "tests/profiler/test_graph.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class MeasureTest : public testing::Test {
 protected:
  MeasureTest() {
    options_.fingerprint = cpu_fingerprint(1);
    options_.emulated_speed = 0.5;
    options_.batches = {1, 4};
    options_.budget = Seconds(10);
  }
  std::int64_t batch_of(const ProfiledOp& op, std::size_t point) const { return op.points.at(point).batch; }

  const Graph graph_ = make_mlp(3);
  MeasureOptions options_;
};

TEST(ProfileBatches, AreGeometricWithBothEnds) {
  EXPECT_THAT(profile_batches(1), ElementsAre(1));
  EXPECT_THAT(profile_batches(2), ElementsAre(1, 2));
  EXPECT_THAT(profile_batches(8), ElementsAre(1, 3, 8));  // steps of sqrt(8)
  EXPECT_THAT(profile_batches(64), ElementsAre(1, 4, 16, 64));
}

TEST_F(MeasureTest, FindsEachSignatureAtEachBatch) {
  const Profile profile = measure(graph_, "cpu", options_);
  const Signatures signatures = signatures_of(graph_);
  ASSERT_THAT(profile.ops, SizeIs(signatures.distinct.size()));
  for (const ProfiledOp& op : profile.ops) {
    const bool constant = op.text.starts_with("update");
    ASSERT_THAT(op.points, SizeIs(constant ? 1 : 2)) << op.text;
    EXPECT_EQ(batch_of(op, 0), constant ? 0 : 1);
    for (const CurvePoint& point : op.points) {
      EXPECT_GT(point.time.value, 0) << op.text;
      EXPECT_GE(point.repeats, 2);
    }
  }
}

TEST_F(MeasureTest, TimesAreToldAtTheUsualPace) {
  // It was a million times as fast when it was first looked at and has been as now ever since, so the times are as they
  // are.
  int looks = 0;
  SteadyPace pace([&] {
    return looks++ == 0 ? Pace{Seconds(1e-9), Seconds(1e-9)} : Pace{Seconds(1e-3), Seconds(1e-3)};
  });
  const Profile plain = measure(graph_, "cpu", options_);
  options_.pace = &pace;
  const Profile paced = measure(graph_, "cpu", options_);
  ASSERT_EQ(paced.ops.size(), plain.ops.size());
  for (std::size_t i = 0; i < plain.ops.size(); ++i) {
    const double ratio = paced.ops[i].points[0].time / plain.ops[i].points[0].time;
    EXPECT_GT(ratio, 1e-3) << plain.ops[i].text;
    EXPECT_LT(ratio, 1e3) << plain.ops[i].text;
  }
}

TEST_F(MeasureTest, DoesNotMeasureWhatIsKnown) {
  for (const Signature& signature : signatures_of(graph_).distinct) {
    if (signature.text.starts_with("forward aten::mm")) continue;
    for (const std::int64_t batch : {0, 1, 4}) options_.known.emplace(signature.hash, batch);
  }
  const Profile profile = measure(graph_, "cpu", options_);
  ASSERT_THAT(profile.ops, SizeIs(2));  // the first layer's and the others'
  for (const ProfiledOp& op : profile.ops) EXPECT_TRUE(op.text.starts_with("forward aten::mm")) << op.text;
}

TEST_F(MeasureTest, TellsPiecesThatMakeTheWhole) {
  std::size_t points = 0;
  int told = 0;
  options_.found = [&](const Profile& piece) {
    for (const ProfiledOp& op : piece.ops) points += op.points.size();
    ++told;
  };
  const Profile whole = measure(graph_, "cpu", options_);
  std::size_t all = 0;
  for (const ProfiledOp& op : whole.ops) all += op.points.size();
  EXPECT_EQ(told, 2);
  EXPECT_EQ(points, all);
}

TEST_F(MeasureTest, TakesGenuineInputs) {
  std::vector<std::int64_t> asked;
  options_.input = [&](TensorId tensor, std::int64_t batch) -> std::optional<HostTensor> {
    EXPECT_EQ(tensor, graph_.inputs[0]);
    asked.push_back(batch);
    return make_host_tensor(DType::kFloat32, {batch, 16});
  };
  measure(graph_, "cpu", options_);
  EXPECT_THAT(asked, ElementsAre(1, 4));
}

TEST_F(MeasureTest, KeepsTheBatchWithinTheGraph) {
  Graph graph = graph_;
  graph.min_batch = 2;
  graph.max_batch = 3;
  const Profile profile = measure(graph, "cpu", options_);
  EXPECT_EQ(batch_of(profile.ops[0], 0), 2);
  EXPECT_EQ(batch_of(profile.ops[0], 1), 3);
}

TEST_F(MeasureTest, LeavesOutWhatMemoryDoesNotHold) {
  options_.batches = {1, 1'000'000};
  options_.memory = Bytes(std::int64_t{64} << 20);
  for (const ProfiledOp& op : measure(graph_, "cpu", options_).ops) EXPECT_THAT(op.points, SizeIs(1));
  options_.memory = Bytes(1);
  EXPECT_THAT(measure(graph_, "cpu", options_).ops, IsEmpty());
}

TEST_F(MeasureTest, LeavesOutWhatTheBudgetDoesNotHold) {
  options_.budget = Seconds(1e-9);
  for (const ProfiledOp& op : measure(graph_, "cpu", options_).ops) EXPECT_LE(op.points.back().batch, 1) << op.text;
}

TEST_F(MeasureTest, OpThatDoesNotExistIsNamed) {
  Graph graph = graph_;
  graph.ops[0].target = "aten::no_such_op.default";
  EXPECT_THROW(measure(graph, "cpu", options_), Error);
}

TEST_F(MeasureTest, ProgressMayStopIt) {
  options_.budget = Seconds(30);
  options_.batches = {1, 2000, 4000, 8000};
  options_.progress = [](const MeasureProgress&) { throw Error(ErrorKind::kUnavailable, "stopped"); };
  EXPECT_THROW(measure(make_mlp(3, 512), "cpu", options_), Error);
}

TEST(MeasureDevice, FindsPositiveFigures) {
  SteadyPace pace("cpu", 1);
  const DeviceCosts costs = measure_device("cpu", cpu_fingerprint(1), 1.0, pace);
  EXPECT_GT(costs.pass.value, 0);
  EXPECT_GT(costs.pass_rate.value, 0);
  EXPECT_GT(costs.context.value, 0);
}

TEST(MeasureDevice, AMessagesOverheadIsItsWorkOrHalfTheLatency) {
  ProbedNetwork network;
  network.message_work = Seconds(30e-6);
  network.message_work_per_byte = Seconds(1e-9);
  for (const auto& [from, to, latency] : {std::tuple(0, 1, 80e-6), std::tuple(1, 2, 40e-6)}) {
    ProbedLink link;
    link.from = from;
    link.to = to;
    link.latency = Seconds(latency);
    network.links.push_back(link);
  }
  EXPECT_DOUBLE_EQ(message_costs(network, 0, true, 1, 1.0).overhead.value, 30e-6);
  EXPECT_DOUBLE_EQ(message_costs(network, 1, true, 1, 1.0).overhead.value, 20e-6);
  // More compute threads than cores: what messages use, these lack, shared among the cores.
  const double cores = std::min(granted_cores(), static_cast<double>(std::thread::hardware_concurrency()));
  EXPECT_DOUBLE_EQ(message_costs(network, 0, true, 1000, 1.0).work.value, 30e-6 / cores);
  EXPECT_DOUBLE_EQ(message_costs(network, 0, true, 1000, 1.0).work_per_byte.value, 1e-9 / cores);
  EXPECT_EQ(message_costs(network, 0, false, 1000, 1.0).work.value, 0);  // an accelerator
  if (cores >= 2) {                                                      // one is left
    EXPECT_EQ(message_costs(network, 0, true, 1, 1.0).work.value, 0);
  }
}

TEST(MeasureDevice, KnowsThisProcessor) {
  EXPECT_FALSE(cpu_fingerprint(1).torch.empty());
  EXPECT_EQ(split_kind(cpu_fingerprint(1, 0.5).kind).name, "cpu");
  EXPECT_LE(split_kind(cpu_fingerprint(1, 0.5).kind).factor, 0.5);
}

}  // namespace
}  // namespace motley
