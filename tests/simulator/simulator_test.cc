#include "simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/simulator/hand_built.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class SimulatorTest : public ::testing::Test {
 protected:
  static void expect_times(const SimulationResult& result, DeviceIndex device, std::int32_t instruction, double start,
                           double end) {
    const Event event = HandBuilt::event(result, device, instruction);
    EXPECT_DOUBLE_EQ(event.start.value, start) << "device " << device << ", instruction " << instruction;
    EXPECT_DOUBLE_EQ(event.end.value, end) << "device " << device << ", instruction " << instruction;
  }
};

TEST_F(SimulatorTest, AChainOnOneDeviceTakesTheSumOfItsOps) {
  HandBuilt h(star({1}));
  const ValueId a = h.value(0, "a", 1), b = h.value(0, "b", 1), c = h.value(0, "c", 1);
  h.compute(0, h.op({2}), {}, {a});
  h.compute(0, h.op({3}), {a}, {b}, {a});
  h.compute(0, h.op({4}), {b}, {c}, {b});
  const SimulationResult result = h.run();
  expect_times(result, 0, 1, 2, 5);
  EXPECT_DOUBLE_EQ(result.iteration.value, 9);
  EXPECT_DOUBLE_EQ(result.busy[0].value, 9);
}

TEST_F(SimulatorTest, DispatchComesBeforeEveryInstructionThatComputes) {
  HandBuilt h(star({1, 1}));
  h.costs.dispatch_seconds = 0.5;
  const ValueId a = h.value(0, "a", 2), b = h.value(0, "b", 2);
  h.compute(0, h.op({2}), {}, {a});
  h.add(0, {.kind = InstructionKind::kScale, .inputs = {a}, .outputs = {b}, .releases = {a}});
  h.transfer(0, b, 1);
  const SimulationResult result = h.run();
  expect_times(result, 0, 1, 2.5, 5);  // a pass of 2 B at 1 B/s
  expect_times(result, 0, 2, 5, 7);    // no instruction of the compute stream
}

TEST_F(SimulatorTest, ATransferTakesOverheadsLatencyAndBytesOverBandwidth) {
  HandBuilt h(star({1, 1}, Bytes(1000), Seconds(0.25)));
  h.costs.overhead = 0.5;
  const ValueId a = h.value(0, "a", 10);
  h.compute(0, h.op({2}), {}, {a});
  const ValueId received = h.transfer(0, a, 1);
  h.compute(1, h.op({3}), {received}, {h.value(1, "b", 1)});
  const SimulationResult result = h.run();
  // Ready at 2; overhead to 2.5; 10 B at 1 B/s to 12.5; two links of 0.25 s to 13; overhead to 13.5; op to 16.5.
  expect_times(result, 0, 1, 2, 12.5);
  expect_times(result, 1, 0, 0, 13.5);
  EXPECT_DOUBLE_EQ(result.iteration.value, 16.5);
}

TEST_F(SimulatorTest, TwoFlowsShareALinkUntilOneEnds) {
  HandBuilt h(star({9, 9, 1}));  // devices 0 and 1 both send to 2, whose link carries 1 B/s
  const ValueId a = h.value(0, "a", 2), b = h.value(1, "b", 5);
  h.compute(0, h.op({1}), {}, {a});
  h.compute(1, h.op({1}), {}, {b});
  h.transfer(0, a, 2);
  h.transfer(1, b, 2);
  const SimulationResult result = h.run();
  // From 1 on both at 0.5 B/s: a's 2 B are there at 5; b has 3 of 5 B left, alone at 1 B/s: 8.
  expect_times(result, 0, 1, 1, 5);
  expect_times(result, 1, 1, 1, 8);
  EXPECT_DOUBLE_EQ(result.iteration.value, 8);
}

TEST_F(SimulatorTest, AFullDuplexLinkCarriesBothWaysAtOnce) {
  HandBuilt h(star({1, 1}));
  const ValueId a = h.value(0, "a", 6), b = h.value(1, "b", 6);
  h.compute(0, h.op({1}), {}, {a});
  h.compute(1, h.op({1}), {}, {b});
  h.transfer(0, a, 1);
  h.transfer(1, b, 0);
  EXPECT_DOUBLE_EQ(h.run().iteration.value, 7);
}

// Device 0 sends 8 B: its link gives a message of 8 B 1 B/s of its 2: 8 s, then the latency of 0.5 s at each link.
TEST_F(SimulatorTest, ASmallMessageGetsWhatTheCurveSays) {
  HandBuilt h(star({2, 4}, Bytes(1000), Seconds(0.5)));
  for (Link& link : h.cluster.links) {
    if (link.bandwidth.value == 2) link.curve = {{Bytes(8), BytesPerSecond(1)}, {Bytes(64), BytesPerSecond(2)}};
  }
  h.cluster.finish();
  h.transfer(0, h.value(0, "a", 8, true), 1);
  EXPECT_DOUBLE_EQ(h.run().iteration.value, 9);
}

TEST_F(SimulatorTest, ARingAllReduceRunsAtItsSlowestLink) {
  HandBuilt h(star({6, 2, 3}, Bytes(1000), Seconds(0.5)));
  h.costs.overhead = 0.25;
  std::vector<ValueId> gradients;
  for (DeviceIndex d = 0; d < 3; ++d) {
    gradients.push_back(h.value(d, "g", 9));
    h.compute(d, h.op({1.0 + d}), {}, {gradients.back()});
  }
  h.all_reduce({0, 1, 2}, gradients, 9);
  const SimulationResult result = h.run();
  // The last enters at 3. 2(3-1) = 4 steps of 2 * 0.5 + 0.25 s: 8. Then 4/3 * 9 = 12 B over each ring edge; every
  // device sends one flow up and takes one down, and the slowest edge has 2 B/s: 6 s.
  for (DeviceIndex d = 0; d < 3; ++d) expect_times(result, d, 1, 1.0 + d, 14);
}

TEST_F(SimulatorTest, ACollectiveSharesLinksWithATransfer) {
  HandBuilt h(star({1, 1}));
  const ValueId g0 = h.value(0, "g0", 4), g1 = h.value(1, "g1", 4), a = h.value(0, "a", 4);
  h.compute(0, h.op({1}), {}, {g0, a});
  h.compute(1, h.op({1}), {}, {g1});
  h.all_reduce({0, 1}, {g0, g1}, 4);
  h.transfer(0, a, 1);
  const SimulationResult result = h.run();
  // 0 to 1 carries the ring's 2 * 1/2 * 4 = 4 B and the transfer's 4 B, each at 0.5 B/s: both end at 1 + 8.
  expect_times(result, 0, 1, 1, 9);
  expect_times(result, 0, 2, 1, 9);
}

TEST_F(SimulatorTest, ACollectiveOverlapsCompute) {
  HandBuilt h(star({1, 1}));
  std::vector<ValueId> gradients;
  for (DeviceIndex d = 0; d < 2; ++d) {
    gradients.push_back(h.value(d, "g", 4));
    h.compute(d, h.op({1}), {}, {gradients.back()});
  }
  h.all_reduce({0, 1}, gradients, 4);
  for (DeviceIndex d = 0; d < 2; ++d) h.compute(d, h.op({5}), {}, {h.value(d, "x", 1)});
  const SimulationResult result = h.run();
  expect_times(result, 0, 1, 1, 5);  // 4 B at 1 B/s
  expect_times(result, 0, 2, 1, 6);  // beside it
  EXPECT_DOUBLE_EQ(result.iteration.value, 6);
}

TEST_F(SimulatorTest, MessagesSlowTheComputeOfBothEnds) {
  HandBuilt h(star({1, 1}));
  h.costs.work = 1;
  h.costs.work_per_byte = 0.25;
  const ValueId a = h.value(0, "a", 2), b = h.value(0, "b", 4), c = h.value(1, "c", 4);
  const ValueId received = h.transfer(0, a, 1);
  h.transfer(0, b, 1);
  h.transfer(1, c, 0);
  h.compute(1, h.op({10}), {received}, {h.value(1, "x", 1)});
  const SimulationResult result = h.run();
  // Device 1 has nothing to compute until `a` has come: 2 s. `b`, from 2 to 6, costs it 1 + 0.25 * 4 = 2 s. So does
  // `c`, from 0 to 4, but only half of its time falls on the compute instruction: 1 s. Later messages there are none.
  expect_times(result, 1, 3, 2, 15);
}

TEST_F(SimulatorTest, ComputeWaitsForMessagesInLine) {
  HandBuilt h(star({1, 1}));
  h.costs.in_line = true;
  const ValueId a = h.value(0, "a", 2), b = h.value(0, "b", 4);
  h.compute(0, h.op({1}), {}, {a});
  h.compute(0, h.op({10}), {}, {h.value(0, "x", 1)});
  const ValueId received = h.transfer(0, a, 1);
  h.transfer(0, b, 1);
  h.compute(1, h.op({10}), {received}, {h.value(1, "y", 1)});
  const SimulationResult result = h.run();
  // `a` goes from 1 to 3, `b`, behind it, from 3 to 7. Device 0 computes from 1 on: 10 s and the 6 s of both. Device 1
  // has nothing to compute until `a` has come at 3: 10 s and the 4 s of `b`.
  expect_times(result, 0, 1, 1, 17);
  expect_times(result, 1, 2, 3, 17);
}

TEST_F(SimulatorTest, TheNextOpWaitsForAMessageInLineThatEndsWithTheOneBefore) {
  HandBuilt h(star({1, 1}));
  h.costs.in_line = true;
  h.transfer(0, h.value(0, "a", 2, true), 1);
  h.compute(0, h.op({2}), {}, {h.value(0, "x", 1)});
  h.compute(0, h.op({3}), {}, {h.value(0, "y", 1)});
  const SimulationResult result = h.run();
  // `a` goes from 0 to 2, as the first op does: the second has its 3 s and those 2.
  expect_times(result, 0, 1, 0, 2);
  expect_times(result, 0, 2, 2, 7);
}

TEST_F(SimulatorTest, MessagesInLineGoOneAtATime) {
  HandBuilt h(star({1, 1, 1}));
  h.costs.in_line = true;
  const ValueId a = h.value(0, "a", 2, true), b = h.value(1, "b", 4, true), c = h.value(2, "c", 1, true);
  h.transfer(0, a, 1);
  h.transfer(1, b, 0);
  h.transfer(2, c, 0);
  const SimulationResult result = h.run();
  // `b` would have the other channels of both links, and `c` another sender, but each waits for the one before it.
  expect_times(result, 0, 0, 0, 2);
  expect_times(result, 1, 1, 0, 6);
  expect_times(result, 2, 0, 0, 7);
}

TEST_F(SimulatorTest, ACollectiveSlowsTheComputeOfItsMembers) {
  HandBuilt h(star({1, 1}));
  h.costs.work = 0.5;
  h.costs.work_per_byte = 0.25;
  std::vector<ValueId> gradients;
  for (DeviceIndex d = 0; d < 2; ++d) {
    gradients.push_back(h.value(d, "g", 4));
    h.compute(d, h.op({1}), {}, {gradients.back()});
    h.compute(d, h.op({20}), {}, {h.value(d, "x", 1)});
  }
  h.all_reduce({0, 1}, gradients, 4);
  const SimulationResult result = h.run();
  // Each sends and receives 2(2-1) = 2 messages of 2 B: 4 * (0.5 + 0.25 * 2) = 4 s of work.
  for (DeviceIndex d = 0; d < 2; ++d) expect_times(result, d, 1, 1, 25);
}

TEST_F(SimulatorTest, AMessagePausesBesideCompute) {
  HandBuilt h(star({1, 1, 1, 1}));
  h.costs.pause = 3;
  const ValueId a = h.value(0, "a", 4);
  for (const DeviceIndex to : {1, 2, 3}) h.transfer(0, a, to);
  h.compute(2, h.op({20}), {}, {h.value(2, "x", 1)});
  for (int i = 0; i < 2; ++i) h.compute(3, h.op({7}), {}, {h.value(3, "x", 1)});
  const SimulationResult result = h.run();
  // They arrive at 4, 8 and 12. Device 1 is idle; device 2 computes and sees it at 8 + 3; device 3 falls idle at 14.
  expect_times(result, 1, 0, 0, 4);
  expect_times(result, 2, 0, 0, 11);
  expect_times(result, 3, 0, 0, 14);
  expect_times(result, 2, 1, 0, 20);  // compute itself has what the quota grants it
}

TEST_F(SimulatorTest, GlooTellsOfAReceiveAfterTheMessageUnderWay) {
  for (const std::string kind : {"cpu", "T4"}) {
    HandBuilt h(star({1, 1}));
    h.cluster.devices[1].kind = kind;
    const ValueId a = h.value(0, "a", 1), b = h.value(1, "b", 9);
    for (int i = 0; i <= kPostedReceives; ++i) h.transfer(0, a, 1);
    h.transfer(1, b, 0);
    const SimulationResult result = h.run();
    // Device 1 sends `b` until 9. Its last receive it posts at 1, when the first has come, which device 0 is told then.
    const double sent = kind == "cpu" ? 9 : kPostedReceives;
    expect_times(result, 1, kPostedReceives, kPostedReceives, sent + 1);
  }
}

TEST_F(SimulatorTest, AReceiveIsPostedBetweenInstructionsOfACpu) {
  for (const std::string kind : {"cpu", "T4"}) {
    HandBuilt h(star({1, 1}));
    h.cluster.devices[1].kind = kind;
    h.compute(1, h.op({7}), {}, {h.value(1, "x", 1)});
    h.compute(1, h.op({20}), {}, {h.value(1, "y", 1)});
    const ValueId a = h.value(0, "a", 1);
    for (int i = 0; i <= kPostedReceives; ++i) h.transfer(0, a, 1);
    const SimulationResult result = h.run();
    // The first has come at 1, but a CPU posts the one after those that were posted only when it has computed, at 7.
    const double posted = kind == "cpu" ? 7 : kPostedReceives;
    expect_times(result, 1, 2 + kPostedReceives, posted, posted + 1);
  }
}

TEST_F(SimulatorTest, ASenderThatComputesSeesItsReceivePostedLate) {
  HandBuilt h = late_posting();
  h.costs.pause = 2;
  h.compute(2, h.op({20}), {}, {h.value(2, "x", 1)});
  const SimulationResult result = h.run();
  // Device 0, idle, posts the receive at 8; device 2 sees that at 10, when all of `late` has come, and sends at 10 B/s.
  expect_times(result, 2, 1, 1, 12);
  expect_times(result, 0, 3, 10, 12);
}

TEST_F(SimulatorTest, AStreamKeepsItsOrder) {
  HandBuilt h(star({1, 1}));
  const ValueId late = h.value(0, "late", 1), early = h.value(0, "early", 1);
  h.compute(0, h.op({1}), {}, {early});
  h.compute(0, h.op({1}), {}, {late});
  h.transfer(0, late, 1);
  h.transfer(0, early, 1);
  const SimulationResult result = h.run();
  expect_times(result, 0, 2, 2, 3);
  expect_times(result, 0, 3, 3, 4);  // ready at 1, but behind the other
}

TEST_F(SimulatorTest, AContiguousSliceIsAViewAndOthersAreAPass) {
  HandBuilt h(star({1}));
  const ValueId whole = h.value(0, "whole", 8), half = h.value(0, "half", 4, false, whole), part = h.value(0, "p", 4);
  h.compute(0, h.op({1}), {}, {whole});
  h.add(0, {.kind = InstructionKind::kSlice, .inputs = {whole}, .outputs = {half}});
  EXPECT_DOUBLE_EQ(h.run().iteration.value, 1);
  h.graph.tensors[h.program(0).values[whole].tensor].layout.outer = 2;
  h.add(0, {.kind = InstructionKind::kSlice, .inputs = {whole}, .outputs = {part}});
  h.program(0).instructions.erase(h.program(0).instructions.begin() + 1);
  EXPECT_DOUBLE_EQ(h.run().iteration.value, 5);  // 4 B written at 1 B/s
}

TEST_F(SimulatorTest, ThePeakOfAChainIsItsWidestPlace) {
  HandBuilt h(star({1}));
  h.costs.context_bytes = 5;
  const ValueId weight = h.value(0, "w", 10, true), a = h.value(0, "a", 20), b = h.value(0, "b", 30),
                c = h.value(0, "c", 1);
  h.compute(0, h.op({1}), {weight}, {a});
  h.compute(0, h.op({1, 0, 7}), {a}, {b}, {a});  // 7 B of workspace
  h.compute(0, h.op({1}), {b}, {c}, {b});
  const SimulationResult result = h.run();
  // 5 context + 10 weight; then a: 35; a, b and the workspace: 72; b, c: 46; c: 16 (nobody releases it).
  EXPECT_EQ(result.memory[0].peak.value, 72);
  EXPECT_EQ(result.memory[0].peak_instruction, 1);
  ASSERT_THAT(result.memory[0].live_at_peak, SizeIs(4));
  EXPECT_EQ(result.memory[0].live_at_peak[0].tensor, "b");
  EXPECT_EQ(result.memory[0].live_at_peak[3].tensor, "op1 (workspace)");
  EXPECT_EQ(result.memory_samples.back().bytes.value, 16);
}

TEST_F(SimulatorTest, AWorkspaceIsOfBlocksLikeTheOpsTensors) {
  HandBuilt h(star({1}));
  const ValueId a = h.value(0, "a", 20, true), w = h.value(0, "w", 6, true), b = h.value(0, "b", 30);
  h.compute(0, h.op({1, 0, 37}), {a, w}, {b});
  const SimulationResult result = h.run();
  std::vector<std::int64_t> live;
  for (const LiveValue& value : result.memory[0].live_at_peak) live.push_back(value.bytes.value);
  EXPECT_THAT(live, ElementsAre(30, 30, 20, 6, 6, 1));  // of 37 B one of 30, one of 6 (20 is too large), the rest
}

TEST_F(SimulatorTest, KeptBytesLiveUntilTheLastBackwardOp) {
  HandBuilt h(star({1}));
  const OpId forward = h.op({1, 50}), dx = h.op({1}, OpKind::kInputGradient, forward),
             dw = h.op({1}, OpKind::kWeightGradient, forward);
  const ValueId y = h.value(0, "y", 1), gx = h.value(0, "gx", 2), gw = h.value(0, "gw", 4);
  h.compute(0, forward, {}, {y});
  h.compute(0, dx, {y}, {gx});
  h.compute(0, dw, {y}, {gw}, {y});
  h.compute(0, h.op({1}), {gx, gw}, {}, {gx, gw});
  const SimulationResult result = h.run();
  EXPECT_EQ(result.memory[0].peak.value, 57);  // y, gx, gw and what forward kept
  EXPECT_EQ(result.memory_samples.back().bytes.value, 0);
}

TEST_F(SimulatorTest, AForwardOpWithoutBackwardKeepsNothing) {
  HandBuilt h(star({1}));
  h.compute(0, h.op({1, 50}), {}, {h.value(0, "y", 1)});
  EXPECT_EQ(h.run().memory[0].peak.value, 1);
}

TEST_F(SimulatorTest, AReceiveHoldsItsBufferFromItsPosting) {
  HandBuilt h(star({1, 1}));
  const ValueId a = h.value(0, "a", 10), b = h.value(1, "b", 3);
  h.compute(1, h.op({2}), {}, {b}, {b});
  h.compute(0, h.op({5}), {}, {a});
  h.transfer(0, a, 1);
  EXPECT_EQ(h.run().memory[1].peak.value, 13);  // the buffer waits while b lives
}

TEST_F(SimulatorTest, ASendWaitsUntilItsReceiveIsPosted) {
  const HandBuilt h = late_posting();
  const SimulationResult result = h.run();
  // Device 0 has the receives of `late` posted, whose first one ends at 8: then the fourth is, and 20 B flow beside the
  // 10 B of the second: 5 B/s each, to 10; the third and the rest of the fourth, 10 B each, to 12.
  expect_times(result, 2, 1, 1, 12);
  expect_times(result, 0, 3, 12, 12);
}

TEST_F(SimulatorTest, ReceivesEndInOrder) {
  HandBuilt h(star({1, 1, 1}));
  const ValueId late = h.value(1, "late", 1), early = h.value(2, "early", 1);
  h.compute(1, h.op({5}), {}, {late});
  h.compute(2, h.op({1}), {}, {early});
  h.transfer(1, late, 0);
  h.transfer(2, early, 0);
  const SimulationResult result = h.run();
  expect_times(result, 2, 1, 1, 2);  // its receive is posted beside the other one
  expect_times(result, 0, 0, 0, 6);
  expect_times(result, 0, 1, 6, 6);
}

TEST_F(SimulatorTest, ABucketIsPackedFirst) {
  HandBuilt h(star({1, 1}));
  h.deployment.collectives.push_back({{0, 1}, Bytes(6)});
  for (DeviceIndex d = 0; d < 2; ++d) {
    const ValueId a = h.value(d, "a", 4), b = h.value(d, "b", 2);
    const ValueId a_sum = h.value(d, "a", 4, false, a), b_sum = h.value(d, "b", 2, false, b);
    h.compute(d, h.op({1}), {}, {a, b});
    h.add(d, {.kind = InstructionKind::kAllReduce, .inputs = {a, b}, .outputs = {a_sum, b_sum}, .collective = 0});
    h.compute(d, h.op({1}), {}, {h.value(d, "x", 1)});
  }
  const SimulationResult result = h.run();
  // 6 B packed at 1 B/s from 1 to 7, which the next op waits for; 2 * 1/2 * 6 B at 1 B/s to 13.
  expect_times(result, 0, 1, 1, 13);
  expect_times(result, 0, 2, 7, 8);
  EXPECT_EQ(result.memory[0].peak.value, 12);  // the bucket beside its parts; x is made when they are gone
}

// Two devices train on a context of 5 B, a weight of 10, its momentum of 7 and an input of 8: 30 B. A forward op makes
// 20 B and keeps 6 on device 0, its backward op takes 3 B to make gradients of 4 and 2 B, which are then packed.
//   device 0, while the backward op runs:   30 + 20 + 6 kept + 6 gradients + 3 workspace = 65 B
//             while the bucket is packed:   30 + 20          + 6           + 6 bucket    = 62 B
//   device 1, whose ops keep and need nothing: the bucket's 62 B.
TEST_F(SimulatorTest, APeakIsToldByWhatItIsFor) {
  HandBuilt h(star({1, 1}));
  h.costs.context_bytes = 5;
  h.deployment.collectives.push_back({{0, 1}, Bytes(6)});
  for (DeviceIndex d = 0; d < 2; ++d) {
    const auto value = [&](const char* name, std::int64_t bytes, TensorRole role, ValueId alias_of = kNone) {
      const bool persistent = role == TensorRole::kParameter || role == TensorRole::kOptimizerState;
      const ValueId made = h.value(d, name, bytes, persistent, alias_of);
      h.graph.tensors.back().role = role;
      return made;
    };
    const ValueId w = value("w", 10, TensorRole::kParameter), x = value("x", 8, TensorRole::kInput);
    value("w.momentum", 7, TensorRole::kOptimizerState);
    const ValueId y = value("y", 20, TensorRole::kActivation);
    const ValueId g = value("g", 4, TensorRole::kGradient), h2 = value("h", 2, TensorRole::kGradient);
    h.program(d).inputs = {x};
    const OpId forward = h.op({1, d == 0 ? 6 : 0});
    h.compute(d, forward, {x, w}, {y});
    h.compute(d, h.op({1, 0, d == 0 ? 3 : 0}, OpKind::kWeightGradient, forward), {y}, {g, h2});
    const ValueId g_sum = value("g", 4, TensorRole::kGradient, g), h_sum = value("h", 2, TensorRole::kGradient, h2);
    h.add(d, {.kind = InstructionKind::kAllReduce, .inputs = {g, h2}, .outputs = {g_sum, h_sum}, .collective = 0});
    h.compute(d, h.op({1}), {x, y, g_sum, h_sum}, {}, {x, y, g, h2, g_sum, h_sum});
  }
  const SimulationResult result = h.run();
  const auto uses = [&](std::size_t d) {
    std::vector<std::int64_t> bytes;
    for (const MemoryUse use : kMemoryUses) bytes.push_back(result.memory[d].uses[use].value);
    return bytes;
  };
  // Context, weights, gradients, optimizer states, activations, inputs, workspaces, communication, allocator.
  EXPECT_THAT(uses(0), ElementsAre(5, 10, 6, 7, 26, 8, 3, 0, 0));
  EXPECT_THAT(uses(1), ElementsAre(5, 10, 6, 7, 20, 8, 0, 6, 0));
  EXPECT_EQ(result.memory[0].peak, Bytes(65));
  EXPECT_EQ(result.memory[1].peak, Bytes(62));
}

TEST_F(SimulatorTest, ReceivedWeightsWaitBesideTheOldOnes) {
  HandBuilt h(star({1, 1}));
  const ValueId updated = h.value(0, "w", 8, true), weights = h.value(1, "w", 8, true);
  const ValueId received = h.value(1, "w", 8, false, weights);
  h.compute(0, h.op({1}), {updated}, {});
  h.add(0, {.kind = InstructionKind::kSend, .inputs = {updated}, .peer = 1, .tag = 0});
  h.add(1, {.kind = InstructionKind::kReceive, .outputs = {received}, .peer = 0, .tag = 0});
  const DeviceMemory memory = h.run().memory[1];
  EXPECT_EQ(memory.peak, Bytes(16));
  EXPECT_EQ(memory.uses[MemoryUse::kWeights], Bytes(8));
  EXPECT_EQ(memory.uses[MemoryUse::kCommunication], Bytes(8));
}

TEST_F(SimulatorTest, AValueLivesUntilItsUserOnAnotherStreamHasEnded) {
  HandBuilt h(star({1, 1}));
  const ValueId a = h.value(0, "a", 10), b = h.value(0, "b", 1), c = h.value(0, "c", 1);
  h.compute(0, h.op({1}), {}, {a});
  h.transfer(0, a, 1);                     // until 11
  h.compute(0, h.op({1}), {a}, {b}, {a});  // releases a at 2, in program order after the send
  h.compute(0, h.op({1}), {b}, {c});       // at 2
  EXPECT_EQ(h.run().memory[0].peak.value, 12);
}

TEST_F(SimulatorTest, OutOfMemoryNamesDeviceAmountsAndTensors) {
  HandBuilt h(star({1}, Bytes(1024)));
  h.costs.context_bytes = 256;
  const ValueId weight = h.value(0, "fc.weight", 1024, true), a = h.value(0, "relu", 512);
  h.compute(0, h.op({1}), {weight}, {a});
  const SimulationResult result = h.run();
  EXPECT_FALSE(result.feasible);
  EXPECT_THAT(result.reasons,
              ElementsAre("n0/0 needs 1.75 KiB of 1.00 KiB (768 B over): 1.00 KiB weights, 512 B activations, 256 B "
                          "context; the largest are fc.weight (1.00 KiB), relu (512 B)"));
}

TEST_F(SimulatorTest, HeadroomStaysFree) {
  HandBuilt h(star({1}, Bytes(2048)));
  h.compute(0, h.op({1}), {h.value(0, "fc.weight", 1024, true)}, {h.value(0, "relu", 512)});
  h.cluster.leave_free({.bytes = Bytes(512)});  // 1024 + 512 of 2048 - 512
  EXPECT_TRUE(h.run().feasible);
  h.cluster.leave_free({.bytes = Bytes(513)});
  EXPECT_FALSE(h.run().feasible);
  h.cluster.leave_free({.share = 0.375});
  const SimulationResult result = h.run();
  EXPECT_THAT(result.reasons, ElementsAre(HasSubstr("needs 1.50 KiB of 2.00 KiB less 768 B of headroom (256 B over)")));
  EXPECT_EQ(result.memory[0].peak, Bytes(1536));  // what it needs is the same
  EXPECT_EQ(result.memory[0].headroom, Bytes(768));
  EXPECT_EQ(result.memory[0].lacking(), Bytes(256));
}

TEST_F(SimulatorTest, TellsHowMuchRestsOnEstimates) {
  HandBuilt h(star({1}));
  h.compute(0, h.op({1, 0, 0, false}), {}, {h.value(0, "a", 1)});
  h.compute(0, h.op({3}), {}, {h.value(0, "b", 1)});
  EXPECT_DOUBLE_EQ(h.run().estimated_share, 0.25);
}

TEST_F(SimulatorTest, ProgramsThatWaitForEachOtherAreAnInternalError) {
  HandBuilt h(star({1, 1}));
  const ValueId x = h.value(0, "x", 1), y = h.value(0, "y", 1);
  const OpId op = h.op({1});
  h.compute(0, op, {y}, {x});
  h.compute(0, op, {x}, {y});
  const std::string message = support::error_of([&] { h.run(); }, ErrorKind::kInternal);
  EXPECT_THAT(message, HasSubstr("instruction 0 of device 0"));
}

}  // namespace
}  // namespace motley
