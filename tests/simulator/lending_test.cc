// How many micro-batches' activations a device has at once, where a schedule lends them.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compiler/compiler.h"
#include "simulator/simulator.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

// Stages of four layers on devices of their own. A layer keeps one activation of 4000 B of a micro-batch, the input of
// its linear, and the last one also its output; but for the first layer of all, whose input is the model's. Weights are
// a tenth of one.
class LendingTest : public testing::Test {
 protected:
  // By device: how many micro-batches' activations are there at its peak.
  std::vector<double> kept(int stages, std::int64_t micro_batches, const std::string& schedule) const {
    const Graph graph = support::chain_graph({.layers = 4 * stages, .width = 10});
    const Cluster cluster = support::star_cluster(stages, {BytesPerSecond(1e7)});
    support::FixedCosts costs(graph, std::vector<double>(stages, 1.0), 1e-3);
    Strategy strategy{.name = "test", .micro_batches = micro_batches, .schedule = schedule};
    for (int layer = 0; layer < 4 * stages; ++layer) {
      strategy.groups.push_back({.shares = {{layer / 4, 1.0}}, .stage = layer / 4});
    }
    const auto deployment = std::get<Deployment>(compile(graph, cluster, costs, strategy, 100 * micro_batches));
    check(deployment);
    std::vector<double> micro_batches_kept;
    for (const DeviceMemory& memory : simulate(graph, cluster, costs, deployment).memory) {
      const double of_one = (memory.device == 0 ? 4 : 5) * 4000;
      micro_batches_kept.push_back(static_cast<double>(memory.uses[MemoryUse::kActivations].value) / of_one);
    }
    return micro_batches_kept;
  }
};

// ceil((p + 2)/2) micro-batches on any stage (Kim et al., ICML 2023), where 1F1B has p on the first. One that is on its
// way is on both devices, and receives that are posted have their memory.
TEST_F(LendingTest, BPipeKeepsHalfOfThePipeline) {
  for (int p : {4, 5, 6, 8, 10}) {
    EXPECT_NEAR(kept(p, 2 * p, "pipedream-flush")[0], p, 0.25) << p << " stages";
    const double most = std::ceil((p + 2) / 2.0) + 1 + kPostedReceives / 5.0;
    for (double lent : kept(p, 2 * p, "bpipe")) EXPECT_LE(lent, most) << p << " stages";
  }
}

}  // namespace
}  // namespace motley
