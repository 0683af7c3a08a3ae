// How many versions of a stage's weights are held at once, where a schedule updates between micro-batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/compiler.h"
#include "simulator/simulator.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

// A stage per layer, on a device of its own, and another layer before all, whose weights no backward op takes: nobody
// wants the gradient of the input. A weight is 40 000 B, an activation 400 B.
class VersionsTest : public testing::Test {
 protected:
  void run(int stages, std::int64_t micro_batches, const std::string& schedule) {
    graph_ = support::chain_graph({.layers = stages + 1, .width = 100, .momentum = 0.9});
    const Cluster cluster = support::star_cluster(stages, {BytesPerSecond(1e6)}, Seconds(1e-4));
    const support::FixedCosts costs(graph_, std::vector<double>(stages, 1.0));
    Strategy strategy{.name = "test", .micro_batches = micro_batches, .schedule = schedule};
    for (int layer = 0; layer <= stages; ++layer) {
      const int s = std::max(0, layer - 1);
      strategy.groups.push_back({.shares = {{s, 1.0}}, .stage = s});
    }
    deployment_ = std::get<Deployment>(compile(graph_, cluster, costs, strategy, micro_batches));
    check(deployment_);
    result_ = simulate(graph_, cluster, costs, deployment_);
  }

  // Most storages with the stage's weight at once, in the order of its program.
  std::size_t held(int stage) const {
    const Program& program = deployment_.programs[stage];
    const TensorId weight = support::tensor_named(graph_, "l" + std::to_string(stage + 1) + ".weight");
    std::multiset<ValueId> alive;  // the storage of each value that is
    std::size_t most = 1;
    const auto storage = [&](ValueId id) {
      return program.values[id].alias_of == kNone ? id : program.values[id].alias_of;
    };
    for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
      if (program.values[id].persistent && program.values[id].tensor == weight) alive.insert(id);
    }
    for (const Instruction& instruction : program.instructions) {
      for (ValueId id : instruction.outputs) {
        if (id != kNone && program.values[id].tensor == weight) alive.insert(storage(id));
      }
      most = std::max(most, std::set(alive.begin(), alive.end()).size());
      for (ValueId id : instruction.releases) {
        if (program.values[id].tensor == weight) alive.erase(alive.find(storage(id)));
      }
    }
    return most;
  }
  std::int64_t updates(int stage) const {
    const OpId update = support::op_named(graph_, "l" + std::to_string(stage + 1) + ".weight.update");
    return std::ranges::count_if(deployment_.programs[stage].instructions, [&](const Instruction& instruction) {
      return instruction.kind == InstructionKind::kCompute && instruction.op == update;
    });
  }
  // Simulated, in weights; biases are a hundredth of that.
  double simulated(int stage) const {
    return static_cast<double>(result_.memory[stage].uses[MemoryUse::kWeights].value) / 40'000;
  }

  Graph graph_;
  Deployment deployment_;
  SimulationResult result_;
};

// One per micro-batch in flight: p - s on stage s (Narayanan et al., SOSP 2019).
TEST_F(VersionsTest, PipeDreamKeepsOnePerMicroBatchInFlight) {
  for (int p = 1; p <= 5; ++p) {
    run(p, 4 * p + 1, "pipedream");
    for (int s = 0; s < p; ++s) {
      EXPECT_EQ(updates(s), 4 * p + 1) << p << " stages, stage " << s;
      EXPECT_EQ(held(s), p - s) << p << " stages, stage " << s;
      if (s > 0) {
        EXPECT_NEAR(simulated(s), p - s, 0.1) << p << " stages, stage " << s;
      }
    }
  }
}

// Two on every stage (Narayanan et al., ICML 2021); one where there is one batch.
TEST_F(VersionsTest, PipeDream2BWKeepsTwo) {
  for (int p = 1; p <= 5; ++p) {
    for (int batches : {1, 4}) {
      run(p, batches * p, "pipedream-2bw");
      for (int s = 0; s < p; ++s) {
        EXPECT_EQ(updates(s), batches) << p << " stages, stage " << s;
        EXPECT_EQ(held(s), std::min(batches, 2)) << p << " stages, stage " << s;
        if (s > 0) {
          EXPECT_NEAR(simulated(s), std::min(batches, 2), 0.1) << p << " stages, stage " << s;
        }
      }
    }
  }
}

TEST_F(VersionsTest, OthersKeepOne) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h2"}) {
    run(4, 12, schedule);
    for (int s = 0; s < 4; ++s) EXPECT_EQ(held(s), 1) << schedule;
  }
}

}  // namespace
}  // namespace motley
