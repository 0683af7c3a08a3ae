#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "compiler/compiler.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

// What holds for every strategy; drawn at random.
class PropertyTest : public testing::TestWithParam<int> {
 protected:
  PropertyTest() {
    std::mt19937 random(static_cast<std::uint32_t>(GetParam()));
    const auto chance = [&] { return random() % 2 == 0; };
    graph_ = support::chain_graph({.layers = 1 + static_cast<int>(random() % 5),
                                   .width = 2,
                                   .residual = chance(),
                                   .tied = chance(),
                                   .shared = chance(),
                                   .balance = chance(),
                                   .momentum = chance() ? 0.9 : 0});
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      GroupDecision decision{{}, chance() ? GradientMethod::kAllReduce : GradientMethod::kParameterServer};
      for (DeviceIndex device = 0; device < 8; ++device) {
        if (random() % 3 == 0) decision.shares.push_back({device, 0.1 + static_cast<double>(random() % 10)});
      }
      if (decision.shares.empty()) decision.shares = {{static_cast<DeviceIndex>(random() % 8), 1}};
      strategy_.groups.push_back(std::move(decision));
    }
    strategy_.bucket = Bytes(8 << (random() % 6));
    const support::FixedCosts costs(graph_, {8, 7, 6, 5, 4, 3, 2, 1});
    deployment_ = std::get<Deployment>(compile(graph_, cluster_, costs, strategy_, kBatch));
  }

  template <class Visit>
  void each(Visit visit) const {
    for (const Program& program : deployment_.programs) {
      for (const Instruction& instruction : program.instructions) visit(program, instruction);
    }
  }

  static constexpr std::int64_t kBatch = 23;
  Cluster cluster_ = support::star_cluster(8, {BytesPerSecond(10), BytesPerSecond(1000)}, Seconds(0.5));
  Graph graph_;
  Strategy strategy_;
  Deployment deployment_;
};

TEST_P(PropertyTest, PassesTheCheck) { EXPECT_NO_THROW(check(deployment_)); }

TEST_P(PropertyTest, EveryOpRunsOnceForEverySample) {
  std::map<OpId, std::int64_t> samples;
  each([&](const Program&, const Instruction& run) {
    if (run.kind == InstructionKind::kCompute) samples[run.op] += run.batch;
  });
  for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
    const Op& op = graph_.ops[id];
    // Sums are kSum; a gradient of "shared" need not reach each of its replicas.
    if (op.kind == OpKind::kGradientSum || op.kind == OpKind::kUpdate || op.name == "shared.double.dw") continue;
    EXPECT_EQ(samples[id], kBatch) << op.name;
  }
}

// Its context is no value, so no input says so: the gradient of a mean needs the seed alone.
TEST_P(PropertyTest, ABackwardOpComesAfterItsForwardOp) {
  std::set<std::pair<DeviceIndex, OpId>> ran;
  each([&](const Program& program, const Instruction& run) {
    if (run.kind != InstructionKind::kCompute) return;
    const Op& op = graph_.ops[run.op];
    EXPECT_TRUE(!op.is_backward() || ran.contains({program.device, op.forward})) << op.name;
    ran.insert({program.device, run.op});
  });
}

TEST_P(PropertyTest, NothingArrivesTwice) {
  each([&](const Program& program, const Instruction& receive) {
    if (receive.kind != InstructionKind::kReceive) return;
    const Value& got = program.values[receive.outputs[0]];
    if (graph_.tensors[got.tensor].layout.kind != BatchLayout::Kind::kSplit) return;
    for (const Instruction& other : program.instructions) {
      if (other.kind != InstructionKind::kReceive || &other == &receive) continue;
      const Value& there = program.values[other.outputs[0]];
      EXPECT_TRUE(there.tensor != got.tensor || there.end <= got.begin || got.end <= there.begin);
    }
  });
}

TEST_P(PropertyTest, InputsOfAnOpHaveItsSamples) {
  each([&](const Program& program, const Instruction& run) {
    if (run.kind != InstructionKind::kCompute) return;
    for (ValueId input : run.inputs) {
      if (input == kNone) continue;
      const Value& value = program.values[input];
      if (graph_.tensors[value.tensor].layout.kind == BatchLayout::Kind::kSplit) {
        EXPECT_EQ(value.end - value.begin, run.batch) << graph_.tensors[value.tensor].name;
      }
    }
  });
}

TEST_P(PropertyTest, OnlyOneHolderUpdatesUnderAParameterServer) {
  std::map<OpId, int> updates;
  each([&](const Program&, const Instruction& run) { updates[run.op] += run.kind == InstructionKind::kCompute; });
  for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
    if (graph_.ops[id].kind != OpKind::kUpdate) continue;
    const bool server = strategy_.groups[graph_.ops[id].group].gradient == GradientMethod::kParameterServer;
    EXPECT_GE(updates[id], 1);
    EXPECT_LE(updates[id], server ? 1 : 8);
  }
}

TEST_P(PropertyTest, IsDeterministic) {
  const support::FixedCosts costs(graph_, {8, 7, 6, 5, 4, 3, 2, 1});
  const Deployment again = std::get<Deployment>(compile(graph_, cluster_, costs, strategy_, kBatch));
  ASSERT_EQ(again.programs.size(), deployment_.programs.size());
  for (std::size_t p = 0; p < again.programs.size(); ++p) {
    const auto& left = again.programs[p].instructions;
    const auto& right = deployment_.programs[p].instructions;
    ASSERT_EQ(left.size(), right.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      EXPECT_EQ(left[i].kind, right[i].kind);
      EXPECT_EQ(left[i].inputs, right[i].inputs);
      EXPECT_EQ(left[i].tag, right[i].tag);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Random, PropertyTest, testing::Range(0, 60));

}  // namespace
}  // namespace motley
