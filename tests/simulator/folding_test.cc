// Devices that run equal programs may share one: what is simulated must stay the same, to the bit.

#include <gtest/gtest.h>

#include <random>

#include "tests/simulator/drawn.h"

namespace motley {
namespace {

struct Alike {
  explicit Alike(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto chance = [&] { return random() % 2 == 0; };
    graph = drawn_model(random);
    const auto devices = static_cast<DeviceIndex>(2 + random() % 12);
    std::vector<BytesPerSecond> bandwidths;
    std::vector<double> speeds;
    for (DeviceIndex d = 0; d < devices; ++d) {
      bandwidths.emplace_back(1e5 * (1 + random() % 20));
      speeds.push_back(1.0 / (1 + random() % 3));
    }
    cluster = support::star_cluster(devices, bandwidths, Seconds(1e-4), Bytes(random() % 2 == 0 ? 2000 : 1 << 20));
    costs.emplace(graph, speeds, 1e-4);
    costs->memory_rate = BytesPerSecond(1e7);
    costs->message_costs.overhead = Seconds(1e-5);
    if (chance()) costs->message_costs.work = Seconds(1e-4);
    if (chance()) costs->message_costs.work_per_byte = Seconds(1e-6);
    if (chance()) costs->message_costs.pause = Seconds(1e-4);
    if (chance()) cluster.devices[random() % cluster.devices.size()].kind = "cpu";  // then Gloo's ring, else NCCL's way
    costs->kept.assign(graph.ops.size(), Bytes(5));
    strategy.name = "drawn";
    strategy.bucket = Bytes(8 << (random() % 10));
    GroupDecision decision;
    const bool fewer = chance();
    for (DeviceIndex d = 0; d < devices; ++d) {
      if (d < 2 || !fewer || chance()) decision.shares.push_back({d, chance() ? 1.0 : 2.0});
    }
    strategy.groups.assign(graph.groups.size(), decision);
    costs->message_costs.in_line = chance();
    if (chance()) {  // some models take one micro-batch alone
      batch = 60;
      strategy.micro_batches = static_cast<std::int64_t>(1 + random() % 5);
      if (std::holds_alternative<NotCompilable>(Compiler(graph, cluster, *costs).compile(strategy, batch))) {
        strategy.micro_batches = 1;
      }
    }
  }
  Deployment compiled(Folding folding) const {
    return std::get<Deployment>(Compiler(graph, cluster, *costs).compile(strategy, batch, folding));
  }
  SimulationResult simulated(const Deployment& deployment) const {
    return simulate(graph, cluster, *costs, deployment);
  }

  Graph graph;
  Cluster cluster;
  std::optional<support::FixedCosts> costs;
  Strategy strategy;
  std::int64_t batch = 61;
};

// Nine devices that are all alike.
struct Nine : Alike {
  Nine() : Alike(1) {
    batch = 61;
    strategy.micro_batches = 1;
    cluster = support::star_cluster(9, {BytesPerSecond(1e5)});
    costs.emplace(graph, std::vector<double>(9, 1.0), 1e-4);
    GroupDecision all;
    for (DeviceIndex d = 0; d < 9; ++d) all.shares.push_back({d, 1.0});
    strategy.groups.assign(graph.groups.size(), all);
  }
};

class FoldingTest : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(FoldingTest, TwinsChangeNothing) {
  const Alike drawn(GetParam());
  const SimulationResult whole = drawn.simulated(drawn.compiled(Folding::kNone));
  const SimulationResult folded = drawn.simulated(drawn.compiled(Folding::kTwins));
  EXPECT_EQ(folded.iteration, whole.iteration);
  EXPECT_EQ(folded.busy, whole.busy);
  EXPECT_EQ(folded.channel_bytes, whole.channel_bytes);
  EXPECT_EQ(folded.feasible, whole.feasible);
  EXPECT_EQ(folded.reasons, whole.reasons);
  ASSERT_EQ(folded.memory.size(), whole.memory.size());
  for (std::size_t m = 0; m < whole.memory.size(); ++m) {
    EXPECT_EQ(folded.memory[m].device, whole.memory[m].device);
    EXPECT_EQ(folded.memory[m].peak, whole.memory[m].peak);
    EXPECT_EQ(folded.memory[m].peak_instruction, whole.memory[m].peak_instruction);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FoldingTest, ::testing::Range(0U, 100U));

TEST(FoldingTest, EqualDevicesShareAProgram) {
  Nine nine;
  // 61 samples: 7 devices of 7, of which the first two remain, and 2 of 6.
  const Deployment folded = nine.compiled(Folding::kTwins);
  ASSERT_EQ(folded.programs.size(), 3u);
  EXPECT_EQ(folded.programs[0].twins.size(), 5u);
  EXPECT_EQ(folded.programs[2].twins.size(), 1u);
  EXPECT_EQ(folded.collectives[0].members.size(), 9u);
  // By parameter server, devices meet one by one.
  nine.strategy.groups.front().gradient = GradientMethod::kParameterServer;
  EXPECT_EQ(nine.compiled(Folding::kTwins).programs.size(), 9u);
}

TEST(FoldingTest, MicroBatchesAreFoldedWhereAllAreAlike) {
  Nine nine;
  nine.strategy.micro_batches = 3;
  EXPECT_EQ(nine.compiled(Folding::kTwins).programs.size(), 9u);  // of 21, 20 and 20 samples
  nine.batch = 54;
  EXPECT_EQ(nine.compiled(Folding::kTwins).programs.size(), 2u);
}

// The inner nodes of NCCL's tree move more than its leaves; the members of Gloo's ring all move the same.
TEST(FoldingTest, DevicesThatMessagesDelayUnlikeDoNot) {
  Nine nine;
  nine.costs->message_costs.work_per_byte = Seconds(1e-6);
  EXPECT_EQ(nine.compiled(Folding::kTwins).programs.size(), 9u);
  for (Device& device : nine.cluster.devices) device.kind = "cpu";
  EXPECT_EQ(nine.compiled(Folding::kTwins).programs.size(), 3u);
}

}  // namespace
}  // namespace motley
