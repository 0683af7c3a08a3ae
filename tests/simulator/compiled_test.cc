// What holds for every simulation, on what the compiler makes of strategies of all kinds.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "compiler/compiler.h"
#include "simulator/simulator.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

class CompiledTest : public ::testing::TestWithParam<int> {
 protected:
  CompiledTest()
      : graph_(support::chain_graph({.layers = 8, .width = 16, .residual = true, .tied = true, .momentum = 0.9})),
        cluster_(support::star_cluster(3, {BytesPerSecond(2e6), BytesPerSecond(1e6)}, Seconds(1e-4))),
        costs_(graph_, {1, 0.5, 0.25}, 1e-4) {
    costs_.kept.assign(graph_.ops.size(), Bytes(5));
    costs_.workspace.assign(graph_.ops.size(), Bytes(3));
    costs_.memory_rate = BytesPerSecond(1e8);
    costs_.message_costs.overhead = Seconds(1e-5);
    costs_.context_bytes = Bytes(1000);
    std::mt19937 random(GetParam());
    Strategy strategy;
    strategy.bucket = Bytes(1 << 11);
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      GroupDecision decision;
      for (DeviceIndex d = 0; d < 3; ++d) {
        if (random() % 2 == 0) decision.shares.push_back({d, 1.0 + random() % 4});
      }
      if (decision.shares.empty()) decision.shares.push_back({static_cast<DeviceIndex>(random() % 3), 1});
      decision.gradient = random() % 2 == 0 ? GradientMethod::kAllReduce : GradientMethod::kParameterServer;
      strategy.groups.push_back(decision);
    }
    deployment_ = std::get<Deployment>(compile(graph_, cluster_, costs_, strategy, 24));
    result_ = run();
  }
  SimulationResult run() const { return simulate(graph_, cluster_, costs_, deployment_, {.keep_events = true}); }
  const Program& program(DeviceIndex device) const {
    for (const Program& program : deployment_.programs) {
      if (program.device == device) return program;
    }
    throw std::out_of_range("program");
  }

  Graph graph_;
  Cluster cluster_;
  support::FixedCosts costs_;
  Deployment deployment_;
  SimulationResult result_;
};

TEST_P(CompiledTest, EveryInstructionRunsOnce) {
  std::set<std::pair<DeviceIndex, std::int32_t>> seen;
  for (const Event& event : result_.events) {
    EXPECT_TRUE(seen.emplace(event.device, event.instruction).second);
    EXPECT_LE(event.start, event.end);
  }
  std::size_t instructions = 0;
  for (const Program& program : deployment_.programs) instructions += program.instructions.size();
  EXPECT_EQ(seen.size(), instructions);
}

TEST_P(CompiledTest, InputsAreThereAndStreamsAreInOrder) {
  std::map<std::pair<DeviceIndex, std::int32_t>, Event> by_place;
  for (const Event& event : result_.events) by_place[{event.device, event.instruction}] = event;
  for (const Program& program : deployment_.programs) {
    std::map<ValueId, double> made;
    std::map<Stream, double> free;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const Event& event = by_place[{program.device, static_cast<std::int32_t>(i)}];
      for (ValueId input : instruction.inputs) {
        if (const auto found = made.find(input); found != made.end()) {
          EXPECT_GE(event.start.value, found->second);
        }
      }
      double& stream = free[stream_of(instruction.kind)];
      EXPECT_GE(event.start.value, stream);
      stream = event.end.value;
      for (ValueId output : instruction.outputs) made[output] = event.end.value;
    }
  }
}

TEST_P(CompiledTest, TwoRunsAreTheSameToTheBit) {
  const SimulationResult again = run();
  EXPECT_EQ(again.iteration, result_.iteration);
  ASSERT_EQ(again.events.size(), result_.events.size());
  for (std::size_t i = 0; i < again.events.size(); ++i) {
    EXPECT_EQ(again.events[i].device, result_.events[i].device);
    EXPECT_EQ(again.events[i].instruction, result_.events[i].instruction);
    EXPECT_EQ(again.events[i].start, result_.events[i].start);
    EXPECT_EQ(again.events[i].end, result_.events[i].end);
  }
  for (std::size_t p = 0; p < again.memory.size(); ++p) EXPECT_EQ(again.memory[p].peak, result_.memory[p].peak);
}

TEST_P(CompiledTest, NoChannelCarriesMoreThanItsBandwidth) {
  for (ChannelIndex channel = 0; channel < cluster_.channel_count(); ++channel) {
    EXPECT_LE(static_cast<double>(result_.channel_bytes[channel].value),
              cluster_.bandwidth(channel).value * result_.iteration.value * (1 + 1e-9));
  }
}

TEST_P(CompiledTest, MemoryEndsWhereItBegan) {
  std::map<DeviceIndex, std::int64_t> last, expected;
  for (const MemorySample& sample : result_.memory_samples) last[sample.device] = sample.bytes.value;
  for (const Program& program : deployment_.programs) {
    // The context, the state, the loss, which is read afterwards, and new weights beside the old ones.
    std::int64_t& bytes = expected[program.device];
    bytes = 1000;
    for (const Value& value : program.values) {
      if (value.persistent && value.alias_of == kNone) bytes += value.bytes.value;
    }
    for (const LossPart& part : program.losses) bytes += program.values[part.value].bytes.value;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.kind != InstructionKind::kReceive) continue;
      const Value& value = program.values[instruction.outputs[0]];
      if (value.alias_of != kNone) bytes += value.bytes.value;
    }
  }
  EXPECT_EQ(last, expected);
}

TEST_P(CompiledTest, ThePeakIsTheMostThatWasEverLive) {
  std::map<DeviceIndex, std::int64_t> most;
  for (const MemorySample& sample : result_.memory_samples) {
    most[sample.device] = std::max(most[sample.device], sample.bytes.value);
  }
  for (const DeviceMemory& memory : result_.memory) {
    EXPECT_GE(memory.peak.value, most[memory.device]);  // a bucket is there for no time
    for (std::size_t i = 1; i < memory.live_at_peak.size(); ++i) {
      EXPECT_GE(memory.live_at_peak[i - 1].bytes, memory.live_at_peak[i].bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, CompiledTest, ::testing::Range(0, 12));

}  // namespace
}  // namespace motley
