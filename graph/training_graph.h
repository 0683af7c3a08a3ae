#pragma once

// The first arrow of a job: a PyTorch program becomes a training graph.

#include <string>

#include "graph/graph.h"

namespace motley {

struct TrainingOptions {
  OptimizerOptions optimizer;
  std::int32_t max_groups = 200;  // bound of the op groups; ops that must stay together are one group even so
};

// Reads the .pt2 file and makes its training graph: import (graph/import.h), exact losses for unequal shares
// (graph/loss_rewrite.h), batch layouts (graph/batch_analysis.h), backward and updates (graph/autodiff.h), op groups
// (graph/clustering.h), fingerprint. Deterministic. Throws Error naming the file, node and source line.
Graph load_training_graph(const std::string& path, const TrainingOptions& options);

// The same for a forward graph that is there already.
Graph make_training_graph(Graph forward, const TrainingOptions& options);

}  // namespace motley
