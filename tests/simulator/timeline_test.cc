#include "simulator/timeline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/chain_graph.h"

namespace motley {
namespace {

class TimelineTest : public ::testing::Test {
 protected:
  static proto::Timeline timeline(const std::string& strategy = "ev-ar") {
    proto::Timeline timeline;
    timeline.set_strategy(strategy);
    return timeline;
  }
  static void add(proto::Timeline& timeline, int device, int instruction, int iteration, double start, double end) {
    proto::TimelineEvent& event = *timeline.add_events();
    event.set_device(device);
    event.set_instruction(instruction);
    event.set_iteration(iteration);
    event.set_start(start);
    event.set_end(end);
  }
  Instruction op(const char* name) const {
    return {.kind = InstructionKind::kCompute, .op = support::op_named(graph_, name), .batch = 3};
  }
  static Deployment on_one_device(std::vector<Instruction> instructions) {
    Deployment deployment;
    deployment.programs.resize(1);
    deployment.programs[0].instructions = std::move(instructions);
    return deployment;
  }

  const Graph graph_ = support::chain_graph({.layers = 2});
};

TEST_F(TimelineTest, MergesTheWorkersPartsInOrder) {
  proto::Timeline a = timeline(), b = timeline();
  add(a, 0, 0, 1, 0, 1);
  add(a, 0, 0, 0, 0.5, 1);
  add(b, 1, 0, 0, 0, 1);
  const proto::Timeline merged = merge({a, b});
  ASSERT_EQ(merged.events_size(), 3);
  EXPECT_EQ(merged.events(0).device(), 1);
  EXPECT_EQ(merged.events(1).device(), 0);
  EXPECT_EQ(merged.events(2).iteration(), 1);
}

TEST_F(TimelineTest, RefusesPartsOfDifferentDeploymentsAndTheSamePartTwice) {
  proto::Timeline a = timeline();
  add(a, 0, 0, 0, 0, 1);
  EXPECT_THROW(merge({a, timeline("ev-ps")}), Error);
  EXPECT_THROW(merge({a, a}), Error);
}

TEST_F(TimelineTest, TheTypicalIterationIsTheMedianWithoutTheFirst) {
  proto::Timeline a = timeline();
  const double durations[] = {9, 3, 5, 4};
  for (int i = 0; i < 4; ++i) add(a, 0, 0, i, 0, durations[i]);
  EXPECT_EQ(typical_iteration(a), 3);  // 4 of {3, 4, 5}
  EXPECT_THROW(typical_iteration(timeline()), Error);
}

TEST_F(TimelineTest, GivesOneIterationsEventsByStart) {
  proto::Timeline a = timeline();
  add(a, 1, 7, 0, 2, 3);
  add(a, 0, 5, 0, 1, 2);
  add(a, 0, 5, 1, 1, 2);
  const std::vector<Event> events = events_of(a, 0);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].instruction, 5);
  EXPECT_EQ(events[1].device, 1);
}

TEST_F(TimelineTest, TellsWhatOpsTookAsTheMeanOfEqualOnes) {
  const Deployment deployment =
      on_one_device({op("l0.relu"), op("l1.relu"), {.kind = InstructionKind::kScale}});  // the ops are equal
  proto::Timeline measured = timeline();
  add(measured, 0, 0, 1, 0.0, 0.1);
  add(measured, 0, 1, 1, 0.2, 0.6);
  add(measured, 0, 2, 1, 0.6, 0.9);
  add(measured, 0, 0, 2, 0.0, 0.1);
  const auto times = op_times(graph_, deployment, measured);
  ASSERT_EQ(times.size(), 1U);
  ASSERT_EQ(times.at(0).size(), 1U);  // no op, no entry
  ASSERT_EQ(times.at(0)[0].points.size(), 1U);
  EXPECT_EQ(times.at(0)[0].points[0].batch, 3);
  EXPECT_NEAR(times.at(0)[0].points[0].time.value, 0.2, 1e-12);    // of 0.1, 0.4, 0.1
  EXPECT_NEAR(times.at(0)[0].points[0].spread.value, 0.1, 1e-12);  // of 0.1, 0.2, 0.1
  add(measured, 0, 3, 1, 0.9, 1.0);
  EXPECT_THROW(op_times(graph_, deployment, measured), Error);
}

TEST_F(TimelineTest, OpsBesideCommunicationSayNothingOfAProfile) {
  const Deployment deployment =
      on_one_device({op("l0.relu"), {.kind = InstructionKind::kSend}, {.kind = InstructionKind::kReceive}});
  proto::Timeline measured = timeline();
  add(measured, 0, 0, 1, 0.0, 0.1);
  add(measured, 0, 1, 1, 0.2, 0.4);
  add(measured, 0, 2, 1, 0.0, 0.7);
  add(measured, 0, 0, 2, 0.3, 0.5);  // of another iteration than the send
  EXPECT_NEAR(op_times(graph_, deployment, measured).at(0)[0].points[0].time.value, 0.15, 1e-12);
  add(measured, 0, 0, 1, 0.39, 0.6);  // the send ends in it
  add(measured, 0, 0, 1, 0.25, 0.3);  // runs beside the send
  add(measured, 0, 0, 1, 0.1, 0.25);  // the send starts in it
  add(measured, 0, 0, 1, 0.6, 0.8);   // the receive, which had waited, ends in it
  add(measured, 0, 0, 1, 0.8, 1.1);   // counts
  EXPECT_NEAR(op_times(graph_, deployment, measured).at(0)[0].points[0].time.value, 0.2, 1e-12);  // of 0.1, 0.2, 0.3
}

TEST_F(TimelineTest, WorkThatIsKnownCountsWhateverRanBeside) {
  const Deployment deployment = on_one_device({op("l0.relu"), {.kind = InstructionKind::kSend}});
  proto::Timeline measured = timeline();
  add(measured, 0, 0, 1, 0.0, 0.5);
  measured.mutable_events()->rbegin()->set_work(0.1);
  add(measured, 0, 1, 1, 0.2, 0.4);
  add(measured, 0, 0, 2, 0.0, 0.2);
  measured.mutable_events()->rbegin()->set_work(0.2);
  EXPECT_NEAR(op_times(graph_, deployment, measured).at(0)[0].points[0].time.value, 0.15, 1e-12);  // of 0.1, 0.2
}

}  // namespace
}  // namespace motley
