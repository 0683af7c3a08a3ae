// What holds for every simulation, whatever the model, the cluster and the strategy; drawn at random.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "base/error.h"
#include "tests/simulator/drawn.h"

namespace motley {
namespace {

class SimulatorPropertyTest : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SimulatorPropertyTest, WhatLeavesDevicesEntersOthers) {
  const Drawn drawn(GetParam());
  const SimulationResult result = drawn.run();
  std::int64_t left = 0, entered = 0, sent = 0;
  for (std::size_t i = 0; i < drawn.cluster.links.size(); ++i) {
    const bool of_device = drawn.cluster.links[i].a < static_cast<VertexIndex>(drawn.cluster.devices.size());
    if (!of_device) continue;
    left += result.channel_bytes[2 * i].value;
    entered += result.channel_bytes[2 * i + 1].value;
  }
  for (const Program& program : drawn.deployment.programs) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.kind == InstructionKind::kSend) sent += program.values[instruction.inputs[0]].bytes.value;
    }
  }
  // Whatever the algorithm, ring, tree or halving-doubling: all of n members but one send what they have, and all but
  // one get the sum (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005).
  for (const Collective& collective : drawn.deployment.collectives) {
    sent += 2 * static_cast<std::int64_t>(collective.members.size() - 1) * collective.bytes.value;
  }
  const auto rounding = static_cast<double>(drawn.cluster.links.size());  // a byte per channel
  EXPECT_NEAR(static_cast<double>(left), static_cast<double>(entered), rounding);
  EXPECT_NEAR(static_cast<double>(left), static_cast<double>(sent), rounding);
}

// What was sent and had left between any two times is no more than the sender's and the receiver's links carry in
// between: so no link carries over its bandwidth at any instant. (FlowNetworkTest looks at the rates themselves.)
TEST_P(SimulatorPropertyTest, NoLinkCarriesMoreThanItsBandwidthAtAnyTime) {
  const Drawn drawn(GetParam());
  const SimulationResult result = drawn.run();
  struct Message {
    double start, end, bytes;
  };
  std::map<ChannelIndex, std::vector<Message>> by_channel;
  const std::map<DeviceIndex, const Program*> programs = programs_by_device(drawn.deployment);
  for (const Event& event : result.events) {
    const Program& program = *programs.at(event.device);
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(event.instruction)];
    if (instruction.kind != InstructionKind::kSend) continue;
    const auto bytes = static_cast<double>(program.values[instruction.inputs[0]].bytes.value);
    for (ChannelIndex channel : drawn.cluster.route(event.device, instruction.peer)) {
      by_channel[channel].push_back({event.start.value, event.end.value, bytes});
    }
  }
  for (const auto& [channel, messages] : by_channel) {
    for (const Message& first : messages) {
      for (const Message& last : messages) {
        double bytes = 0;
        for (const Message& one : messages) {
          if (one.start >= first.start && one.end <= last.end) bytes += one.bytes;
        }
        ASSERT_LE(bytes, drawn.cluster.bandwidth(channel).value * std::max(0.0, last.end - first.start) * (1 + 1e-9));
      }
    }
  }
}

// Every instruction begins when the last of what it waits for has ended, and a message ends when it has come.
TEST_P(SimulatorPropertyTest, NothingWaitsLongerThanItMust) {
  const Drawn drawn(GetParam(), Bytes(1));  // each gradient alone: nothing is packed, which would delay others
  const SimulationResult result = drawn.run();
  std::map<std::pair<DeviceIndex, std::int32_t>, Event> events;
  for (const Event& event : result.events) events[{event.device, event.instruction}] = event;
  std::map<std::tuple<DeviceIndex, DeviceIndex, std::int32_t>, double> sent;
  double last = 0;
  for (const Program& program : drawn.deployment.programs) {
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const double end = events[{program.device, static_cast<std::int32_t>(i)}].end.value;
      if (instruction.kind == InstructionKind::kSend) sent[{program.device, instruction.peer, instruction.tag}] = end;
      last = std::max(last, end);
    }
  }
  EXPECT_EQ(last, result.iteration.value);
  for (const Program& program : drawn.deployment.programs) {
    std::map<ValueId, double> made;
    std::map<Stream, double> free;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const Event& event = events[{program.device, static_cast<std::int32_t>(i)}];
      const Stream stream = stream_of(instruction.kind);
      double start = free[stream];
      for (ValueId input : instruction.inputs) start = std::max(start, made[input]);
      ASSERT_EQ(event.start.value, start);
      if (stream == Stream::kReceive) {
        const double came = sent[{instruction.peer, program.device, instruction.tag}] +
                            drawn.cluster.latency(instruction.peer, program.device).value +
                            drawn.costs->message_costs.overhead.value;
        ASSERT_NEAR(event.end.value, std::max(came, free[stream]), 1e-12);
      }
      free[stream] = event.end.value;
      for (ValueId output : instruction.outputs) made[output] = event.end.value;
    }
  }
}

// Two instructions of a program change places, which may break it. What check() lets pass must run to its end.
TEST_P(SimulatorPropertyTest, WhatPassesTheCheckEnds) {
  Drawn drawn(GetParam());
  int passed = 0;
  for (int change = 0; change < 20; ++change) {
    Deployment changed = drawn.deployment;
    std::vector<Instruction>& code = changed.programs[drawn.random() % changed.programs.size()].instructions;
    const std::size_t at = drawn.random() % code.size();
    const std::size_t other = std::min(code.size() - 1, at + 1 + drawn.random() % 4);
    std::swap(code[at], code[other]);
    try {
      check(changed);
    } catch (const Error&) {
      continue;
    }
    ++passed;
    EXPECT_NO_THROW(simulate(drawn.graph, drawn.cluster, *drawn.costs, changed));
  }
  EXPECT_GT(passed, 0);
}

// All figures of a result, bit by bit.
std::string bits_of(const SimulationResult& result) {
  std::string bits;
  const auto add = [&](auto number) { bits.append(reinterpret_cast<const char*>(&number), sizeof number); };
  add(result.iteration.value);
  for (const Event& event : result.events) {
    add(event.device);
    add(event.instruction);
    add(event.start.value);
    add(event.end.value);
  }
  for (const MemorySample& sample : result.memory_samples) {
    add(sample.device);
    add(sample.time.value);
    add(sample.bytes.value);
  }
  for (const DeviceMemory& memory : result.memory) {
    add(memory.peak.value);
    add(memory.peak_instruction);
  }
  for (Bytes bytes : result.channel_bytes) add(bytes.value);
  for (Seconds seconds : result.busy) add(seconds.value);
  return bits;
}

TEST(SimulatorThreadsTest, EightThreadsGiveWhatOneDoesToTheByte) {
  std::vector<Drawn> drawn;
  for (std::uint32_t seed = 100; seed < 108; ++seed) drawn.emplace_back(seed);
  std::vector<std::string> expected;
  for (const Drawn& one : drawn) expected.push_back(bits_of(one.run()));
  std::vector<std::vector<std::string>> found(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < found.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < drawn.size(); ++i) found[t].push_back(bits_of(drawn[(t + i) % drawn.size()].run()));
      });
    }
  }
  for (std::size_t t = 0; t < found.size(); ++t) {
    for (std::size_t i = 0; i < drawn.size(); ++i) EXPECT_EQ(found[t][i], expected[(t + i) % drawn.size()]);
  }
}

INSTANTIATE_TEST_SUITE_P(Random, SimulatorPropertyTest, ::testing::Range(0U, 40U));

}  // namespace
}  // namespace motley
