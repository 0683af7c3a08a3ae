#pragma once

// One strategy, compiled and simulated.

#include <optional>
#include <string>

#include "compiler/strategy.h"
#include "profiler/cost_model.h"
#include "simulator/simulator.h"

namespace motley {

// What a strategy is judged on: the model, the machines, what things cost, and the batch. Held by reference.
struct Problem {
  const Graph& graph;
  const Cluster& cluster;
  const CostModel& costs;
  std::int64_t batch = 0;
};

struct Evaluation {
  Strategy strategy;
  std::optional<std::string> not_compilable;  // the reason; `simulation` is empty then
  SimulationResult simulation;

  bool feasible() const { return !not_compilable && simulation.feasible; }
  std::vector<std::string> reasons() const;  // why it is not feasible; empty when it is
  std::int64_t overflow_bytes() const;       // what all devices lack together
};

// Thread-safe. Throws what compile() throws.
Evaluation evaluate(const Problem& problem, const Strategy& strategy, const SimulationOptions& options = {});

// Feasible before infeasible before not compilable; among feasible ones the faster; among infeasible ones the one that
// lacks less memory, then the faster.
bool better(const Evaluation& a, const Evaluation& b);

}  // namespace motley
