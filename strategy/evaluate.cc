#include "strategy/evaluate.h"

#include <algorithm>
#include <tuple>
#include <variant>

#include "compiler/compiler.h"

namespace motley {

std::vector<std::string> Evaluation::reasons() const {
  if (not_compilable) return {*not_compilable};
  return simulation.reasons;
}

std::int64_t Evaluation::overflow_bytes() const {
  std::int64_t bytes = 0;
  for (const DeviceMemory& memory : simulation.memory) {
    bytes += std::max<std::int64_t>(0, (memory.peak - memory.capacity).value);
  }
  return bytes;
}

Evaluation evaluate(const Problem& problem, const Strategy& strategy, const SimulationOptions& options) {
  Evaluation evaluation;
  evaluation.strategy = strategy;
  const auto compiled = compile(problem.graph, problem.cluster, problem.costs, strategy, problem.batch);
  if (const auto* failure = std::get_if<NotCompilable>(&compiled)) {
    evaluation.not_compilable = failure->reason;
  } else {
    evaluation.simulation =
        simulate(problem.graph, problem.cluster, problem.costs, std::get<Deployment>(compiled), options);
  }
  return evaluation;
}

bool better(const Evaluation& a, const Evaluation& b) {
  const auto key = [](const Evaluation& e) {
    return std::tuple(e.not_compilable.has_value(), e.overflow_bytes(), e.simulation.iteration.value);
  };
  return key(a) < key(b);
}

}  // namespace motley
