#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "compiler/compiler.h"
#include "tests/support/chain_graph.h"
#include "tests/support/error_of.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

using support::ChainOptions;
using testing::ElementsAre;
using testing::HasSubstr;
using Range = std::pair<std::int64_t, std::int64_t>;

// Layers of width 4: a sample of an activation is 16 B, a weight 64 B, a bias 16 B. Batch 8.
class CompileTest : public testing::Test {
 protected:
  void compile_chain(const ChainOptions& options, std::vector<GroupDecision> groups, Bytes bucket = Bytes(1 << 20)) {
    graph_ = support::chain_graph(options);
    strategy_.groups = std::move(groups);
    strategy_.bucket = bucket;
    deployment_ = std::get<Deployment>(compile_it());
    check(deployment_);
  }

  std::variant<Deployment, NotCompilable> compile_it(std::int64_t batch = 8) const {
    const support::FixedCosts costs(graph_, {1, 1, 1});
    return compile(graph_, cluster_, costs, strategy_, batch);
  }

  static GroupDecision on(std::vector<Share> shares, GradientMethod method = GradientMethod::kAllReduce) {
    return {std::move(shares), method};
  }
  static GroupDecision at_stage(std::int32_t stage, std::vector<Share> shares) {
    return {std::move(shares), GradientMethod::kAllReduce, stage};
  }

  // "F0 F1 B0 ": what the device works on, a letter for each change of pass or micro-batch.
  std::string passes(DeviceIndex device) const {
    std::string text, last;
    for (const Instruction* run : all(device, InstructionKind::kCompute)) {
      const Op& op = graph_.ops[run->op];
      if (op.kind == OpKind::kUpdate) continue;
      const std::string pass = (op.kind == OpKind::kForward ? "F" : "B") + std::to_string(run->micro_batch) + " ";
      if (pass != last) text += pass;
      last = pass;
    }
    return text;
  }

  const Program& program(DeviceIndex device) const {
    for (const Program& program : deployment_.programs) {
      if (program.device == device) return program;
    }
    throw std::out_of_range("no program");
  }

  std::vector<const Instruction*> all(DeviceIndex device, InstructionKind kind) const {
    std::vector<const Instruction*> found;
    for (const Instruction& instruction : program(device).instructions) {
      if (instruction.kind == kind) found.push_back(&instruction);
    }
    return found;
  }

  const Instruction* run_of(DeviceIndex device, const std::string& op) const {
    for (const Instruction* instruction : all(device, InstructionKind::kCompute)) {
      if (instruction->op == support::op_named(graph_, op)) return instruction;
    }
    return nullptr;
  }

  const Value& value(DeviceIndex device, ValueId id) const { return program(device).values[id]; }
  Range range(DeviceIndex device, ValueId id) const { return {value(device, id).begin, value(device, id).end}; }

  // "TENSOR[begin,end) bytes" of what the device receives, in program order.
  std::vector<std::string> received(DeviceIndex device) const {
    std::vector<std::string> texts;
    for (const Instruction* instruction : all(device, InstructionKind::kReceive)) {
      const Value& got = value(device, instruction->outputs[0]);
      texts.push_back(graph_.tensors[got.tensor].name + "[" + std::to_string(got.begin) + "," +
                      std::to_string(got.end) + ") " + std::to_string(got.bytes.value));
    }
    return texts;
  }

  Cluster cluster_ = support::star_cluster(3, {BytesPerSecond(100)});
  Graph graph_;
  Strategy strategy_;
  Deployment deployment_;
};

TEST_F(CompileTest, SharesThreeToOne) {
  compile_chain({}, {on({{0, 3}, {1, 1}}), on({{0, 3}, {1, 1}})});
  EXPECT_EQ(range(0, program(0).inputs[0]), Range(0, 6));
  EXPECT_EQ(range(1, program(1).inputs[0]), Range(6, 8));
  EXPECT_EQ(all(0, InstructionKind::kFill)[0]->scale, 0.75);  // the loss is a mean: 6 of 8 samples
  EXPECT_EQ(all(1, InstructionKind::kFill)[0]->scale, 0.25);
  ASSERT_EQ(program(0).losses.size(), 1U);
  EXPECT_EQ(program(0).losses[0].weight, 0.75);
  EXPECT_EQ(run_of(1, "l1.linear")->batch, 2);
}

TEST_F(CompileTest, OneBucketTakesAllGradients) {
  compile_chain({}, {on({{0, 3}, {1, 1}}), on({{0, 3}, {1, 1}})});
  ASSERT_EQ(deployment_.collectives.size(), 1U);
  EXPECT_EQ(deployment_.collectives[0].bytes, Bytes(2 * (64 + 16)));
  EXPECT_THAT(received(0), ElementsAre());
  EXPECT_NE(run_of(0, "l0.weight.update"), nullptr);
  EXPECT_NE(run_of(1, "l0.weight.update"), nullptr);
}

TEST_F(CompileTest, BucketsFillInTheOrderOfTheBackwardPass) {
  // The last layer's 64 + 16 bytes reach a bucket of 80; so do the first layer's.
  compile_chain({}, {on({{0, 1}, {1, 1}}), on({{0, 1}, {1, 1}})}, Bytes(80));
  ASSERT_EQ(deployment_.collectives.size(), 2U);
  const Instruction& first = *all(0, InstructionKind::kAllReduce)[0];
  EXPECT_EQ(graph_.tensors[value(0, first.inputs[0]).tensor].name, "l1.linear.d1");
  EXPECT_EQ(first.collective, 0);
  EXPECT_EQ(value(0, first.outputs[0]).alias_of, first.inputs[0]);
}

TEST_F(CompileTest, ParameterServersHoldTheStates) {
  const auto decision = on({{0, 1}, {1, 1}}, GradientMethod::kParameterServer);
  compile_chain({.momentum = 0.9}, {decision, decision});
  EXPECT_TRUE(deployment_.collectives.empty());
  std::map<std::string, int> updates;
  std::int64_t sent = 0;
  for (DeviceIndex device : {0, 1}) {
    for (const Instruction* send : all(device, InstructionKind::kSend))
      sent += value(device, send->inputs[0]).bytes.value;
    for (const Instruction* run : all(device, InstructionKind::kCompute)) {
      if (graph_.ops[run->op].kind == OpKind::kUpdate) ++updates[graph_.ops[run->op].name];
    }
    for (const Value& held : program(device).values) {
      const Tensor& tensor = graph_.tensors[held.tensor];
      if (tensor.role != TensorRole::kOptimizerState) continue;
      EXPECT_NE(run_of(device, graph_.tensors[tensor.state_of].name + ".update"), nullptr);
    }
  }
  EXPECT_EQ(sent, 2 * 2 * (64 + 16));  // each gradient to its server, each parameter back
  EXPECT_THAT(updates,
              testing::UnorderedElementsAre(testing::Pair("l0.weight.update", 1), testing::Pair("l0.bias.update", 1),
                                            testing::Pair("l1.weight.update", 1), testing::Pair("l1.bias.update", 1)));
  // Two weights of 64 B on equal devices: one each.
  EXPECT_NE(run_of(0, "l0.weight.update") != nullptr, run_of(0, "l1.weight.update") != nullptr);
}

TEST_F(CompileTest, AHolderOnASlowLinkLeavesServingToAllOthersAlike) {
  cluster_ = support::star_cluster(3, {BytesPerSecond(100), BytesPerSecond(100), BytesPerSecond(1)});
  const auto decision = on({{0, 1}, {1, 1}, {2, 1}}, GradientMethod::kParameterServer);
  compile_chain({.layers = 4}, {decision, decision, decision, decision});
  // Whoever serves, the slow link carries each gradient and each weight once, unless its own device serves.
  std::map<DeviceIndex, int> weights;
  for (DeviceIndex device : {0, 1, 2}) {
    for (int layer = 0; layer < 4; ++layer) {
      if (run_of(device, "l" + std::to_string(layer) + ".weight.update") != nullptr) ++weights[device];
    }
  }
  EXPECT_THAT(weights, ElementsAre(testing::Pair(0, 2), testing::Pair(1, 2)));
}

TEST_F(CompileTest, NewWeightsArriveInTheirParameter) {
  const auto decision = on({{0, 1}, {1, 1}}, GradientMethod::kParameterServer);
  compile_chain({.layers = 1}, {decision});
  int weights = 0;
  for (DeviceIndex device : {0, 1}) {
    for (const Instruction* receive : all(device, InstructionKind::kReceive)) {
      const Value& got = value(device, receive->outputs[0]);
      if (graph_.tensors[got.tensor].role != TensorRole::kParameter) continue;
      ++weights;
      EXPECT_TRUE(value(device, got.alias_of).persistent);
      EXPECT_EQ(value(device, got.alias_of).tensor, got.tensor);
    }
  }
  EXPECT_EQ(weights, 2);
}

TEST_F(CompileTest, ACutSendsOneActivationAndOneGradient) {
  compile_chain({}, {on({{0, 1}}), on({{2, 1}})});
  EXPECT_THAT(received(2), ElementsAre("l0.relu[0,8) 128"));
  EXPECT_THAT(received(0), ElementsAre("l1.linear.d0[0,8) 128"));
  EXPECT_EQ(deployment_.programs.size(), 2U);
  EXPECT_EQ(run_of(2, "l0.linear"), nullptr);
  EXPECT_TRUE(program(2).inputs.empty());
}

TEST_F(CompileTest, AResidualAcrossACutSendsNoMore) {
  // l1 uses l0's output twice: it is sent once, and its two gradients come back as one sum.
  compile_chain({.residual = true}, {on({{0, 1}}), on({{1, 1}})});
  EXPECT_THAT(received(1), ElementsAre("l0.relu[0,8) 128"));
  EXPECT_THAT(received(0), ElementsAre("l0.relu.sum[0,8) 128"));
}

TEST_F(CompileTest, OtherSharesExchangeExactlyTheOverlaps) {
  // l0: [0,4) [4,8); l1: [0,6) [6,8). Device 0 lacks samples 4 and 5, of the gradient device 1 does.
  compile_chain({}, {on({{0, 1}, {1, 1}}), on({{0, 3}, {1, 1}})});
  EXPECT_THAT(received(0), ElementsAre("l0.relu[4,6) 32"));
  EXPECT_THAT(received(1), ElementsAre("l1.linear.d0[4,6) 32"));
  const Instruction& joined = *all(0, InstructionKind::kConcat)[0];
  EXPECT_EQ(range(0, joined.inputs[0]), Range(0, 4));
  EXPECT_EQ(range(0, joined.inputs[1]), Range(4, 6));
  EXPECT_EQ(run_of(0, "l1.linear")->inputs[0], joined.outputs[0]);
  EXPECT_EQ(run_of(0, "l1.linear.dw")->inputs[1], joined.outputs[0]);  // the backward pass keeps what came
}

TEST_F(CompileTest, TiedWeightsLiveOnBothDevices) {
  compile_chain({.tied = true}, {on({{0, 1}}), on({{1, 1}})});
  ASSERT_EQ(deployment_.collectives.size(), 1U);
  EXPECT_THAT(deployment_.collectives[0].members, ElementsAre(0, 1));
  EXPECT_EQ(deployment_.collectives[0].bytes, Bytes(64 + 16));
  EXPECT_NE(run_of(0, "l0.weight.update"), nullptr);
  EXPECT_NE(run_of(1, "l0.weight.update"), nullptr);
}

TEST_F(CompileTest, TiedWeightsOnOneDeviceAreSummedThere) {
  compile_chain({.tied = true}, {on({{0, 1}}), on({{0, 1}})});
  EXPECT_EQ(all(0, InstructionKind::kSum).size(), 2U);  // weight and bias
  EXPECT_EQ(run_of(0, "l0.weight.update")->inputs[1], all(0, InstructionKind::kSum)[0]->outputs[0]);
}

TEST_F(CompileTest, AnIndependentActivationComesFromTheNearestHolder) {
  // "shared" is made on devices 0 and 1; device 2 takes it from 0 (equally near) and sends its gradient there.
  compile_chain({.layers = 1, .shared = true}, {on({{0, 1}, {1, 1}}), on({{2, 1}})});
  EXPECT_THAT(received(2), ElementsAre("shared.double[0,4) 16"));
  EXPECT_THAT(received(0), ElementsAre("l0.shift.d1[0,8) 16"));
  EXPECT_EQ(run_of(1, "shared.double.dw"), nullptr);
  // Device 1 got no gradient: it brings zeros to the all-reduce.
  EXPECT_EQ(all(1, InstructionKind::kFill)[0]->scale, 0.0);
}

TEST_F(CompileTest, WholeValuesAreReducedEarly) {
  // mean -> square of the whole mean: each replica's mean counts 5/8 or 3/8.
  compile_chain({.layers = 1, .balance = true}, {on({{0, 5}, {1, 3}})});
  EXPECT_EQ(all(0, InstructionKind::kScale)[0]->scale, 0.625);
  EXPECT_EQ(all(1, InstructionKind::kScale)[0]->scale, 0.375);
  const Instruction& reduce = *all(0, InstructionKind::kAllReduce)[0];
  EXPECT_EQ(run_of(0, "square")->inputs[0], reduce.outputs[0]);
  EXPECT_NE(run_of(0, "loss")->inputs[0], reduce.outputs[0]);  // which takes the replica's own mean
}

TEST_F(CompileTest, OneReplicaNeedsNoCollective) {
  compile_chain({.layers = 1, .balance = true}, {on({{1, 1}})});
  EXPECT_TRUE(deployment_.collectives.empty());
  EXPECT_EQ(all(1, InstructionKind::kFill)[0]->scale, 1.0);
  EXPECT_TRUE(all(1, InstructionKind::kScale).empty());
}

TEST_F(CompileTest, TellsWhyABatchIsTooSmall) {
  graph_ = support::chain_graph({});
  strategy_.groups = {on({{0, 1}, {1, 1}, {2, 1}}), on({{0, 1}})};
  EXPECT_THAT(std::get<NotCompilable>(compile_it(2)).reason, HasSubstr("group l0 has 3 replicas for a batch of 2"));
  graph_.min_batch = 2;
  EXPECT_THAT(std::get<NotCompilable>(compile_it(4)).reason,
              HasSubstr("group l0 gets 1 samples on n1/0, but the model takes at least 2"));
}

TEST_F(CompileTest, ALossThatComparesSamplesStaysOnOneDevice) {
  graph_ = support::chain_graph({});
  graph_.tensors[graph_.loss].layout.kind = BatchLayout::Kind::kMixed;
  strategy_.groups = {on({{0, 1}}), on({{0, 1}, {1, 1}})};
  EXPECT_THAT(std::get<NotCompilable>(compile_it()).reason, HasSubstr("group l1 compares samples with each other"));
  strategy_.groups = {on({{0, 1}, {1, 1}}), on({{0, 1}})};
  EXPECT_TRUE(std::holds_alternative<Deployment>(compile_it()));
}

TEST_F(CompileTest, WhatCannotBeCutKeepsItsGroupsTogether) {
  graph_ = support::chain_graph({});
  graph_.tensors[support::tensor_named(graph_, "l0.relu")].layout.kind = BatchLayout::Kind::kMixed;
  strategy_.groups = {on({{0, 1}, {1, 1}}), on({{0, 1}})};
  EXPECT_THAT(std::get<NotCompilable>(compile_it()).reason,
              HasSubstr("tensor l0.relu of group l0 cannot be cut along the batch, but group l1"));
  strategy_.groups[1] = strategy_.groups[0];
  EXPECT_TRUE(std::holds_alternative<Deployment>(compile_it()));
}

TEST_F(CompileTest, RefusesAStrategyForSomethingElse) {
  graph_ = support::chain_graph({});
  const auto refusal = [&](std::vector<GroupDecision> groups) -> std::string {
    strategy_.groups = std::move(groups);
    return support::error_of([&] { compile_it(); }, ErrorKind::kInvalidInput);
  };
  EXPECT_THAT(refusal({on({{0, 1}})}), HasSubstr("decides on 1 op groups, but the graph has 2"));
  EXPECT_THAT(refusal({on({{0, 1}}), on({{3, 1}})}), HasSubstr("places group 1 (l1) on device 3"));
  EXPECT_THAT(refusal({on({{0, 1}}), on({{0, 0}})}), HasSubstr("gives group 1 (l1) a share of 0"));
  EXPECT_THAT(refusal({on({{0, 1}}), on({{1, 1}, {0, 1}})}), HasSubstr("once each, ascending"));
  EXPECT_THAT(refusal({on({}), on({{1, 1}})}), HasSubstr("gives group 0 (l0) no device"));
  EXPECT_THAT(refusal({at_stage(1, {{0, 1}}), at_stage(0, {{1, 1}})}),
              HasSubstr("puts group 0 (l0) in stage 1, but group 1 (l1), which uses what it makes, in stage 0"));
  EXPECT_THAT(refusal({at_stage(0, {{0, 1}}), at_stage(2, {{1, 1}})}), HasSubstr("has no group in stage 1"));
  strategy_.micro_batches = 0;
  EXPECT_THAT(refusal({on({{0, 1}}), on({{0, 1}})}), HasSubstr("divides the batch in 0 micro-batches"));
  strategy_.micro_batches = 2;
  strategy_.schedule = "gpip";
  EXPECT_THAT(refusal({on({{0, 1}}), on({{0, 1}})}), HasSubstr("there is no schedule gpip (did you mean gpipe?)"));
}

TEST_F(CompileTest, StagesWorkInTheSchedulesOrder) {
  strategy_.micro_batches = 4;
  compile_chain({}, {at_stage(0, {{0, 1}}), at_stage(1, {{1, 1}})});
  EXPECT_EQ(passes(0), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(passes(1), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  strategy_.schedule = "gpipe";
  compile_chain({}, {at_stage(0, {{0, 1}}), at_stage(1, {{1, 1}})});
  EXPECT_EQ(passes(0), "F0 F1 F2 F3 B3 B2 B1 B0 ");
}

// Batch 8 in 3 micro-batches: 3, 3 and 2 samples, divided 1 to 1 on the second stage.
TEST_F(CompileTest, MicroBatchesAreDividedByTheShares) {
  strategy_.micro_batches = 3;
  compile_chain({}, {at_stage(0, {{0, 1}}), at_stage(1, {{1, 1}, {2, 1}})});
  EXPECT_THAT(received(1), ElementsAre("l0.relu[0,2) 32", "l0.relu[3,5) 32", "l0.relu[6,7) 16"));
  EXPECT_THAT(received(2), ElementsAre("l0.relu[2,3) 16", "l0.relu[5,6) 16", "l0.relu[7,8) 16"));
  std::vector<double> weights;
  for (const LossPart& part : program(1).losses) weights.push_back(part.weight);
  EXPECT_THAT(weights, ElementsAre(2 / 8.0, 2 / 8.0, 1 / 8.0));
}

// The second part makes the sum, the others go into it where it is; one update follows.
TEST_F(CompileTest, GradientsOfMicroBatchesAreSummedInPlace) {
  strategy_.micro_batches = 4;
  compile_chain({.layers = 1}, {on({{0, 1}})});
  std::map<TensorId, std::vector<const Instruction*>> sums;
  for (const Instruction* sum : all(0, InstructionKind::kSum)) {
    sums[value(0, sum->outputs[0]).tensor].push_back(sum);
  }
  ASSERT_EQ(sums.size(), 2U);  // weight and bias
  for (const auto& [gradient, chain] : sums) {
    ASSERT_EQ(chain.size(), 3U);
    EXPECT_EQ(value(0, chain[0]->outputs[0]).alias_of, kNone);
    EXPECT_EQ(value(0, chain[1]->outputs[0]).alias_of, chain[0]->outputs[0]);
    EXPECT_EQ(value(0, chain[2]->outputs[0]).alias_of, chain[0]->outputs[0]);
  }
  EXPECT_EQ(std::ranges::count_if(all(0, InstructionKind::kCompute),
                                  [&](const Instruction* run) { return graph_.ops[run->op].kind == OpKind::kUpdate; }),
            2);
}

// Layer 0 keeps nothing: it runs again once its gradient is there. What layer 1 needs of it is not made twice for that.
TEST_F(CompileTest, WhatIsNotKeptIsMadeAgain) {
  GroupDecision forgets = on({{0, 1}});
  forgets.recompute = Recompute::kFull;
  compile_chain({}, {forgets, on({{0, 1}})});
  std::vector<std::string> ran;
  for (const Instruction* run : all(0, InstructionKind::kCompute)) ran.push_back(graph_.ops[run->op].name);
  const auto count = [&](const std::string& name) { return std::ranges::count(ran, name); };
  EXPECT_EQ(count("l0.linear"), 2);
  EXPECT_EQ(count("l0.relu"), 2);
  EXPECT_EQ(count("l1.linear"), 1);
  const auto last = [&](const std::string& name) { return ran.rend() - std::find(ran.rbegin(), ran.rend(), name); };
  EXPECT_LT(last("l1.linear.dx"), last("l0.linear"));
  EXPECT_LT(last("l0.relu"), last("l0.relu.dx"));
}

// A matrix product's output stays; what follows it is made again.
TEST_F(CompileTest, SelectiveRecomputationKeepsMatrixProducts) {
  GroupDecision forgets = on({{0, 1}});
  forgets.recompute = Recompute::kSelective;
  compile_chain({}, {forgets, on({{0, 1}})});
  std::map<std::string, int> runs;
  for (const Instruction* run : all(0, InstructionKind::kCompute)) ++runs[graph_.ops[run->op].name];
  EXPECT_EQ(runs["l0.linear"], 1);
  EXPECT_EQ(runs["l0.relu"], 2);
}

// A device that goes on with the next micro-batch first would hold the gradients of all.
TEST_F(CompileTest, GradientsOfAMicroBatchAreSummedBeforeTheNext) {
  strategy_.micro_batches = 8;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    strategy_.schedule = schedule;
    compile_chain({.layers = 1}, {on({{0, 1}})});
    std::size_t held = 0;  // gradients of the weight that are not in the sum yet
    for (const Instruction& run : program(0).instructions) {
      if (run.kind == InstructionKind::kCompute && graph_.ops[run.op].kind == OpKind::kWeightGradient) ++held;
      if (run.kind == InstructionKind::kSum && run.op == support::op_named(graph_, "l0.weight.update")) --held;
      EXPECT_LE(held, 2U) << schedule;
    }
    EXPECT_EQ(held, 1U);
  }
}

TEST_F(CompileTest, SaysWhyABatchCannotBeDivided) {
  graph_ = support::chain_graph({});
  strategy_.groups = {on({{0, 1}, {1, 1}}), on({{0, 1}, {1, 1}})};
  const auto reason = [&](std::int64_t micro_batches, const std::string& schedule) {
    strategy_.micro_batches = micro_batches;
    strategy_.schedule = schedule;
    return std::get<NotCompilable>(compile_it()).reason;
  };
  EXPECT_THAT(reason(9, "1f1b"), HasSubstr("a batch of 8 cannot be divided in 9 micro-batches"));
  EXPECT_THAT(reason(5, "1f1b"), HasSubstr("group l0 has 2 replicas for a batch of 1"));
  strategy_.groups = {at_stage(0, {{0, 1}, {1, 1}}), at_stage(1, {{1, 1}, {2, 1}})};
  EXPECT_THAT(reason(2, "1f1b"), HasSubstr("give every stage devices of its own"));
}

TEST_F(CompileTest, InputGradientsThatOthersWaitForGoFirst) {
  // Device 0 has 800 s to do once l1's input gradient is there, and device 1's two weight gradients take 400 s each: in
  // the graph's order, one of them first, it takes 1200 s, at best 800 s.
  graph_ = support::chain_graph({.layers = 3});
  support::FixedCosts costs(graph_, {1, 1, 1}, 0.01);
  costs.seconds_per_sample[support::op_named(graph_, "l0.linear.dw")] = 100;
  for (const char* op : {"l1.linear.dw", "l2.linear.dw"}) costs.seconds_per_sample[support::op_named(graph_, op)] = 50;
  strategy_.groups = {on({{0, 1}}), on({{1, 1}}), on({{1, 1}})};
  deployment_ = std::get<Deployment>(compile(graph_, cluster_, costs, strategy_, 8));
  EXPECT_LT(run_of(1, "l1.linear.dx"), run_of(1, "l2.linear.dw"));
}

TEST_F(CompileTest, WhereTransfersTakeNoTimeTheGraphsOrderStays) {
  cluster_ = support::star_cluster(3, {BytesPerSecond(1e9)});
  compile_chain({}, {on({{0, 1}, {1, 1}}), on({{0, 1}, {1, 1}})});
  OpId last = kNone;
  for (const Instruction* run : all(0, InstructionKind::kCompute)) {
    if (graph_.ops[run->op].kind == OpKind::kUpdate) break;
    EXPECT_GT(run->op, last);
    last = run->op;
  }
}

}  // namespace
}  // namespace motley
