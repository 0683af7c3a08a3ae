#pragma once

// One strategy, compiled and simulated.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compiler.h"
#include "simulator/simulator.h"

namespace motley {

struct Evaluation {
  Strategy strategy;
  std::optional<std::string> not_compilable;  // the reason; `simulation` is empty then
  SimulationResult simulation;

  bool feasible() const { return !not_compilable && simulation.feasible; }
  std::vector<std::string> reasons() const;  // why it is not feasible; empty when it is
  Bytes overflow() const;                    // what all devices lack together
};

// Feasible before infeasible before not compilable; among feasible ones the faster; among infeasible ones the one that
// lacks less memory, then the faster.
bool better(const Evaluation& a, const Evaluation& b);

// Throws Error(kInvalidInput) when `batch` is outside the graph's range.
void check_batch(const Graph& graph, std::int64_t batch);

// Judges strategies for one model on one cluster at one batch size. Graph, cluster and costs must outlive it. Const
// functions are thread-safe.
class Evaluator {
 public:
  Evaluator(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch);

  // Throws Error(kInvalidInput) when the strategy does not fit the graph or the cluster. The schedule kAutoSchedule is
  // the best of those that train as one device does, which the evaluation's strategy names.
  Evaluation evaluate(const Strategy& strategy) const;
  // By its name (strategy/baselines.h).
  Evaluation evaluate_baseline(const std::string& name) const;

  const Graph& graph() const { return graph_; }
  const Cluster& cluster() const { return cluster_; }
  const CostModel& costs() const { return costs_; }
  std::int64_t batch() const { return batch_; }

 private:
  Evaluation with_best_schedule(Strategy strategy) const;

  const Graph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  std::int64_t batch_;
  Compiler compiler_;
};

}  // namespace motley
