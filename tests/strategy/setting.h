#pragma once

// A model, machines and costs for tests that judge whole strategies.

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

}  // namespace motley
