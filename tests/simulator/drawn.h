#pragma once

// A model, a cluster, costs and a strategy, all drawn at random, and what the compiler makes of them.

#include <optional>
#include <random>
#include <vector>

#include "compiler/compiler.h"
#include "simulator/simulator.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {

// A chain of one to six layers.
inline Graph drawn_model(std::mt19937& random) {
  const auto chance = [&] { return random() % 2 == 0; };
  return support::chain_graph({.layers = 1 + static_cast<int>(random() % 6),
                               .width = 8,
                               .residual = chance(),
                               .tied = chance(),
                               .shared = chance(),
                               .balance = chance(),
                               .momentum = chance() ? 0.9 : 0});
}

struct Drawn {
  explicit Drawn(std::uint32_t seed, Bytes bucket = Bytes(0)) : random(seed) {
    graph = drawn_model(random);
    const int devices = 1 + static_cast<int>(random() % 6);
    std::vector<BytesPerSecond> bandwidths;
    std::vector<double> speeds;
    for (int d = 0; d < devices; ++d) {
      bandwidths.emplace_back(1e5 * (1 + random() % 20));
      speeds.push_back(1.0 / (1 + random() % 4));
    }
    cluster = support::star_cluster(devices, bandwidths, Seconds(chance() ? 1e-4 : 0));
    costs.emplace(graph, speeds, 1e-4);
    costs->memory_rate = BytesPerSecond(1e7);
    costs->message_costs.overhead = Seconds(chance() ? 1e-5 : 0);
    costs->kept.assign(graph.ops.size(), Bytes(5));
    costs->workspace.assign(graph.ops.size(), Bytes(3));
    Strategy strategy;
    strategy.bucket = bucket.value > 0 ? bucket : Bytes(8 << (random() % 10));
    for (std::size_t g = 0; g < graph.groups.size(); ++g) {
      GroupDecision decision{{}, chance() ? GradientMethod::kAllReduce : GradientMethod::kParameterServer};
      for (DeviceIndex d = 0; d < devices; ++d) {
        if (chance()) decision.shares.push_back({d, 1.0 + random() % 4});
      }
      if (decision.shares.empty()) decision.shares = {{static_cast<DeviceIndex>(random() % devices), 1}};
      strategy.groups.push_back(decision);
    }
    deployment = std::get<Deployment>(compile(graph, cluster, *costs, strategy, 23));
  }
  bool chance() { return random() % 2 == 0; }
  SimulationResult run() const { return simulate(graph, cluster, *costs, deployment, {.keep_events = true}); }

  std::mt19937 random;
  Graph graph;
  Cluster cluster;
  std::optional<support::FixedCosts> costs;
  Deployment deployment;
};

}  // namespace motley
