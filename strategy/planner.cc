#include "strategy/planner.h"

#include <algorithm>
#include <cmath>

#include "strategy/baselines.h"

namespace motley {

namespace {

// The largest batch below that of `evaluator` at which a baseline is feasible, by halving; smaller batches need less
// memory, so what lies between needs no look.
std::vector<std::string> smaller_batch(const Evaluator& evaluator, const Pins& pins) {
  const auto fitting = [&](std::int64_t batch) -> std::string {
    const Evaluator smaller(evaluator.graph(), evaluator.cluster(), evaluator.costs(), batch);
    for (const std::string& name : strategy_names(evaluator.cluster())) {
      const Strategy fixed = baseline(name, smaller.graph(), smaller.cluster(), smaller.costs(), batch);
      if (pins.obeyed_by(fixed) && smaller.evaluate(fixed).feasible()) return name;
    }
    return "";
  };
  std::int64_t low = std::max<std::int64_t>(1, evaluator.graph().min_batch), high = evaluator.batch();
  std::string name = low < high ? fitting(low) : "";
  if (name.empty()) return {};
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::string found = fitting(middle);
    (found.empty() ? high : low) = middle;
    if (!found.empty()) name = found;
  }
  return {"a batch of " + std::to_string(low) + " fits (" + name + ")"};
}

std::vector<std::string> nearest_changes(const Evaluator& evaluator, const Evaluation& nearest, const LowerBound& bound,
                                         const Pins& pins) {
  std::vector<std::string> changes;
  if (!bound.never_fits) changes = smaller_batch(evaluator, pins);
  std::string more;
  for (const DeviceMemory& memory : nearest.simulation.memory) {
    if (memory.fits()) continue;
    const Device& device = evaluator.cluster().devices[memory.device];
    // Of what is added, headroom takes its share.
    const double added = static_cast<double>(memory.lacking().value) / (1 - device.headroom.share);
    more += (more.empty() ? "" : " and ") + to_string(Bytes(std::llround(added))) + " more on " + device.name;
  }
  if (!more.empty()) changes.push_back(more + " would fit this batch");
  return changes;
}

std::string decision_against(const std::string& trait) {
  const std::string without = "without ";
  if (trait.starts_with(without)) return "uses " + trait.substr(without.size());
  if (trait == "all on one device") return "uses several devices";
  if (trait == "the same shares for every group") return "gives groups different shares";
  if (trait == "every group on one device") return "divides the batch";
  if (trait == "all-reduce alone") return "uses parameter servers";
  return "uses all-reduce";
}

std::vector<RunnerUp> runners_up(std::vector<Alternative> alternatives, const Evaluation& chosen) {
  std::vector<RunnerUp> list;
  for (Alternative& alternative : alternatives) {
    if (!better(chosen, alternative.evaluation)) continue;  // the plan itself has the trait
    const double ratio = alternative.evaluation.simulation.iteration / chosen.simulation.iteration;
    const bool comparable = alternative.evaluation.feasible() && chosen.feasible();
    list.push_back({decision_against(alternative.trait), alternative.trait, std::move(alternative.evaluation),
                    comparable ? ratio : 0});
  }
  std::stable_sort(list.begin(), list.end(), [](const RunnerUp& a, const RunnerUp& b) {
    if ((a.times_slower == 0) != (b.times_slower == 0)) return b.times_slower == 0;
    return a.times_slower < b.times_slower;
  });
  return list;
}

}  // namespace

Plan plan(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch,
          const SearchOptions& options) {
  check_batch(graph, batch);
  const Evaluator evaluator(graph, cluster, costs, batch);
  Plan plan;
  plan.bound = lower_bound(graph, cluster, costs, batch);
  SearchOptions bounded = options;
  bounded.bound = plan.bound.seconds();
  SearchResult result = search(evaluator, bounded);
  plan.chosen = std::move(result.best);
  plan.baselines = std::move(result.baselines);
  plan.runners_up = runners_up(std::move(result.alternatives), plan.chosen);
  plan.evaluations = result.evaluations;
  plan.improvements = std::move(result.improvements);
  plan.elapsed = result.elapsed;
  if (!plan.feasible()) {
    plan.reasons = plan.chosen.reasons();
    if (plan.bound.never_fits) plan.reasons.push_back(*plan.bound.never_fits);
    plan.changes =
        nearest_changes(evaluator, plan.chosen, plan.bound, options.pins != nullptr ? *options.pins : Pins());
  }
  return plan;
}

}  // namespace motley
