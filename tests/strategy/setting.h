#pragma once

// A model, machines and costs for tests that judge whole strategies.

#include <random>
#include <utility>
#include <vector>

#include "strategy/evaluate.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {

struct Setting {
  // Devices of the given speeds on a star whose links carry `bandwidth`. All time is per sample: updates are free.
  Setting(const support::ChainOptions& chain, std::vector<double> speeds, BytesPerSecond bandwidth,
          std::int64_t samples, Bytes memory = Bytes(std::int64_t{1} << 40))
      : graph(support::chain_graph(chain)),
        cluster(support::star_cluster(static_cast<int>(speeds.size()), {bandwidth}, Seconds(1e-6), memory)),
        costs(graph, std::move(speeds), 1e-5),
        batch(samples) {
    for (std::size_t o = 0; o < graph.ops.size(); ++o) {
      if (graph.ops[o].kind == OpKind::kUpdate) costs.seconds_per_sample[o] = 0;
    }
  }
  Evaluator evaluator() const { return {graph, cluster, costs, batch}; }

  // The whole batch on the device of speed 1.
  double seconds_on_one() const {
    double sum = 0;
    for (double seconds : costs.seconds_per_sample) sum += seconds * static_cast<double>(batch);
    return sum;
  }

  Graph graph;
  Cluster cluster;
  support::FixedCosts costs;
  std::int64_t batch;
};

// A model of a few layers on two to four devices, by chance: layers that weigh unlike, devices that are alike or not,
// links that hold everything up, or nothing, and memories that hold all or, now and then, half of the model.
inline Setting random_small_setting(std::mt19937_64& random) {
  const auto one_of = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
  std::vector<double> speeds(2 + random() % 3);
  for (double& speed : speeds) speed = one_of({1, 1, 0.6, 0.3, 0.1});
  support::ChainOptions chain;
  chain.layers = speeds.size() == 2 ? 3 + static_cast<int>(random() % 3) : 3;
  chain.width = static_cast<std::int64_t>(one_of({16, 64, 256}));
  chain.residual = random() % 2 == 0;
  chain.tied = random() % 4 == 0;
  const auto samples = static_cast<std::int64_t>(one_of({6, 16, 40}));
  const auto bytes = static_cast<double>(chain.layers * chain.width * chain.width * 4);
  // The gradients take a link from a tenth of the time of the compute to ten times as long.
  const double compute = 5e-5 * static_cast<double>(chain.layers) * static_cast<double>(samples);
  Setting setting(chain, speeds, BytesPerSecond(bytes / compute * one_of({0.1, 0.3, 1, 3, 10})), samples);
  for (std::size_t g = 0; g < setting.graph.groups.size(); ++g) {
    const double factor = one_of({0.2, 1, 1, 3});
    for (std::size_t o = 0; o < setting.graph.ops.size(); ++o) {
      if (setting.graph.ops[o].group == static_cast<GroupId>(g)) setting.costs.seconds_per_sample[o] *= factor;
    }
  }
  for (Device& device : setting.cluster.devices) {
    if (random() % 6 == 0) device.memory = Bytes(static_cast<std::int64_t>(bytes));
  }
  return setting;
}

}  // namespace motley
