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

#include "strategy/bottleneck.h"
#include "strategy/evaluate.h"
#include "strategy/variation.h"

namespace motley {

struct WhatIfCluster {
  std::string name;
  ClusterReader read;  // thread-safe
};

struct WhatIfOptions {
  std::vector<Variation> vary;
  // By name (strategy/baselines.h); the best of them counts. Empty: all but mp:DEVICE, and on more than 128 devices
  // those without parameter servers, which take long to simulate.
  std::vector<std::string> strategies;
  std::int64_t evaluations = 0;  // of a search in each scenario, beside the strategies
  bool remedies = true;          // try what would remove each bottleneck
  std::int64_t draws = 0;        // iterations to draw for Outcome::noise (strategy/drawn_costs.h)
  double noise = 0.05;           // for these: standard deviation over time of ops whose cost is an estimate
  std::uint64_t seed = 1;        // of the search and the draws
  int threads = 0;               // 0: one per core
  // What is being simulated, how many of these are done, and of how many; from any thread, one call at a time.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t of)> progress;
};

// The same job with one thing twice as good.
struct Remedy {
  std::string change;  // "twice the compute of V100-16GB", "half the latency and overhead of messages"
  Seconds iteration;   // 0 when it does not fit even so
};

struct Noise {  // of the drawn iterations
  Seconds median;
  Seconds p95;  // 95 of 100 take no longer
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
  std::optional<double> price;       // per hour; nothing where the cluster file does not say it
  // Of the critical path, the longest first: shares of the iteration of 1 % and more. When it does not fit, the memory
  // that is short, with a share of 0.
  std::vector<std::pair<std::string, double>> bottlenecks;
  std::vector<Remedy> remedies;  // in the order of the bottlenecks
  std::optional<Noise> noise;

  bool feasible() const { return reasons.empty(); }
  double samples_per_second() const { return feasible() ? static_cast<double>(batch) / iteration.value : 0; }
};

struct WhatIf {
  std::vector<std::string> axes;  // titles: the cluster when there are several, then each variation's
  std::vector<Outcome> outcomes;  // in the order of the values, the last axis fastest
  std::int64_t draws = 0;         // as asked for
  double noise = 0;
};

// The outcome of the lowest price that does so many samples per second; of equal prices the faster. Nothing when none
// does, or has a price.
const Outcome* cheapest(const WhatIf& sweep, double samples_per_second);

// What costs what there. Must be thread-safe.
using CostMaker = std::function<std::unique_ptr<CostModel>(const Graph&, const Cluster&)>;

// Throws Error(kInvalidInput) for a variation of what a cluster does not have, a batch outside the model's range, an
// unknown strategy; and as the readers and `costs` do. A cluster that falls apart when a node is lost is an outcome.
WhatIf what_if(const Graph& graph, const std::vector<WhatIfCluster>& clusters, const CostMaker& costs,
               std::int64_t batch, const WhatIfOptions& options = {});

}  // namespace motley
