#pragma once

// What a job would take on other machines, or otherwise set: every combination of the values that are varied is
// compiled and simulated, as a plan is. No device is needed.
//
// All cores work on one sweep; the answer does not depend on how many there are.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategy/evaluate.h"
#include "strategy/variation.h"

namespace motley {

struct WhatIfCluster {
  std::string name;
  ClusterReader read;  // thread-safe
};

struct WhatIfOptions {
  std::vector<Variation> vary;
  // By name (strategy/baselines.h); the best of them counts. Empty: all but mp:DEVICE, and on more than 128 devices,
  // whose parameter servers take long to simulate and never win, those without servers.
  std::vector<std::string> strategies;
  std::int64_t evaluations = 0;  // of a search in each scenario, beside the strategies
  std::uint64_t seed = 1;
  int threads = 0;  // 0: one per core
  // What is being simulated, how many of these are done, and of how many; from any thread, one call at a time.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t of)> progress;
};

// One scenario's best strategy.
struct Outcome {
  std::vector<std::string> values;  // of each axis
  std::int64_t batch = 0;
  std::int64_t devices = 0;
  std::string strategy;              // empty: there is no such cluster
  std::vector<std::string> reasons;  // why nothing fits, of the strategy that lacks least; empty when it does
  Seconds iteration;                 // 0 when nothing can be compiled
  double estimated_share = 0;        // as in SimulationResult
  std::string fullest;               // the device that has the largest part of its memory in use
  Bytes peak;                        // ... how much
  Bytes capacity;                    // ... of how much

  bool feasible() const { return reasons.empty(); }
  double samples_per_second() const { return feasible() ? static_cast<double>(batch) / iteration.value : 0; }
};

struct WhatIf {
  std::vector<std::string> axes;  // titles: the cluster when there are several, then each variation's
  std::vector<Outcome> outcomes;  // in the order of the values, the last axis fastest
};

// What costs what there. Must be thread-safe.
using CostMaker = std::function<std::unique_ptr<CostModel>(const Graph&, const Cluster&)>;

// Throws Error(kInvalidInput) for a variation of what a cluster does not have, a batch outside the model's range, an
// unknown strategy; and as the readers and `costs` do. A cluster that falls apart when a node is lost is an outcome.
WhatIf what_if(const Graph& graph, const std::vector<WhatIfCluster>& clusters, const CostMaker& costs,
               std::int64_t batch, const WhatIfOptions& options = {});

}  // namespace motley
