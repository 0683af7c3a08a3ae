#include "strategy/evaluate.h"

#include <algorithm>
#include <tuple>
#include <variant>

#include "base/error.h"
#include "compiler/schedule/schedule.h"
#include "strategy/baselines.h"

namespace motley {

std::vector<std::string> Evaluation::reasons() const {
  if (not_compilable) return {*not_compilable};
  return simulation.reasons;
}

Bytes Evaluation::overflow() const {
  Bytes bytes;
  for (const DeviceMemory& memory : simulation.memory) bytes += memory.lacking();
  return bytes;
}

bool better(const Evaluation& a, const Evaluation& b) {
  const auto key = [](const Evaluation& e) {
    return std::tuple(e.not_compilable.has_value(), e.overflow().value, e.simulation.iteration.value);
  };
  return key(a) < key(b);
}

void check_batch(const Graph& graph, std::int64_t batch) {
  if (batch >= graph.min_batch && (graph.max_batch == 0 || batch <= graph.max_batch)) return;
  throw Error(ErrorKind::kInvalidInput, "batch " + std::to_string(batch) + " is outside the model's range " +
                                            std::to_string(graph.min_batch) + " to " +
                                            (graph.max_batch > 0 ? std::to_string(graph.max_batch) : "any") +
                                            ": choose one within, or export the model with another range");
}

Evaluator::Evaluator(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch)
    : graph_(graph), cluster_(cluster), costs_(costs), batch_(batch), compiler_(graph, cluster, costs) {}

Evaluation Evaluator::with_best_schedule(Strategy strategy) const {
  std::optional<Evaluation> best;
  for (std::string& schedule : synchronous_schedules()) {
    strategy.schedule = std::move(schedule);
    Evaluation one = evaluate(strategy);
    if (!best || better(one, *best)) best = std::move(one);
    if (strategy.micro_batches == 1) break;  // in any order it is the same
  }
  return std::move(*best);
}

Evaluation Evaluator::evaluate(const Strategy& strategy) const {
  if (strategy.schedule == kAutoSchedule) return with_best_schedule(strategy);
  Evaluation evaluation;
  evaluation.strategy = strategy;
  auto compiled = compiler_.compile(strategy, batch_, Folding::kTwins);
  if (auto* failure = std::get_if<NotCompilable>(&compiled)) {
    evaluation.not_compilable = std::move(failure->reason);
  } else {
    evaluation.simulation = simulate(graph_, cluster_, costs_, std::get<Deployment>(compiled));
  }
  return evaluation;
}

Evaluation Evaluator::evaluate_baseline(const std::string& name) const {
  return evaluate(baseline(name, graph_, cluster_, costs_, batch_));
}

}  // namespace motley
