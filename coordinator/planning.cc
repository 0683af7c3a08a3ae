#include "coordinator/planning.h"

#include "compiler/compiler.h"
#include "compiler/serialize.h"
#include "coordinator/worker_group.h"
#include "strategy/planner.h"
#include "strategy/policy/load.h"

namespace motley {
namespace {

constexpr Seconds kSearch{10};

proto::JudgedStrategy judged(const Evaluation& evaluation, const Cluster& cluster) {
  proto::JudgedStrategy result;
  result.set_name(evaluation.strategy.name);
  result.set_feasible(evaluation.feasible());
  for (const std::string& reason : evaluation.reasons()) result.add_reasons(reason);
  if (evaluation.not_compilable) return result;
  result.set_iteration_seconds(evaluation.simulation.iteration.value);
  result.set_estimated_share(evaluation.simulation.estimated_share);
  for (const DeviceMemory& memory : evaluation.simulation.memory) {
    auto& one = *result.add_memory();
    one.set_device(cluster.devices[static_cast<std::size_t>(memory.device)].name);
    one.set_peak_bytes(memory.peak.value);
    one.set_capacity_bytes(memory.capacity.value);
    one.set_allocated_bytes(memory.allocated.value);
    one.set_reserved_bytes(memory.reserved.value);
    one.set_headroom_bytes(memory.headroom.value);
  }
  return result;
}

proto::Timeline predicted(const Deployment& deployment, const SimulationResult& simulation) {
  proto::Timeline timeline;
  timeline.set_graph_fingerprint(deployment.graph_fingerprint);
  timeline.set_strategy(deployment.strategy_name);
  timeline.set_batch(deployment.batch);
  for (const Event& event : simulation.events) {
    auto& one = *timeline.add_events();
    one.set_device(event.device);
    one.set_instruction(event.instruction);
    one.set_start(event.start.value);
    one.set_end(event.end.value);
  }
  return timeline;
}

[[noreturn]] void refuse(const Evaluation& evaluation, const std::vector<std::string>& changes) {
  std::string why = "the strategy " + evaluation.strategy.name + " does not fit:";
  for (const std::string& reason : evaluation.reasons()) why += "\n  " + reason;
  if (!changes.empty()) why += "\nwhat would make one fit:";
  for (const std::string& change : changes) why += "\n  " + change;
  throw NothingFits(why);
}

Evaluation searched(const JobContext& context, const Cluster& cluster, const CostModel& costs,
                    proto::PlanFound& found) {
  SearchOptions options;
  options.time = context.spec.has_search_seconds() ? Seconds{context.spec.search_seconds()} : kSearch;
  options.seed = context.spec.seed() + 1;
  options.stop = context.stop;
  const std::unique_ptr<Prior> prior = options.time > Seconds(0) ? load_shipped_policy() : nullptr;
  options.prior = prior.get();
  Seconds told{};
  options.progress = [&](const SearchProgress& progress) {
    if (progress.elapsed - told < Seconds{0.5}) return;
    told = progress.elapsed;
    context.tell_progress(static_cast<std::int64_t>(progress.elapsed.value),
                          static_cast<std::int64_t>(options.time.value),
                          "search: " + std::to_string(progress.evaluations) + " strategies judged, best " +
                              to_string(progress.best.simulation.iteration) + " per iteration");
  };
  Plan result = plan(context.graph, cluster, costs, context.spec.batch(), options);
  if (!result.feasible()) refuse(result.chosen, result.changes);
  for (const Evaluation& one : result.baselines) *found.add_baselines() = judged(one, cluster);
  for (const RunnerUp& one : result.runners_up) {
    auto& runner_up = *found.add_runners_up();
    runner_up.set_decision(one.decision);
    runner_up.set_instead(one.instead);
    *runner_up.mutable_judged() = judged(one.evaluation, cluster);
    runner_up.set_times_slower(one.times_slower);
  }
  return std::move(result.chosen);
}

Evaluation chosen(const JobContext& context, const Evaluator& evaluator, proto::PlanFound& found) {
  const proto::JobSpec& spec = context.spec;
  if (spec.plan().empty() && (spec.strategy().empty() || spec.strategy() == "search")) {
    return searched(context, evaluator.cluster(), evaluator.costs(), found);
  }
  Evaluation evaluation = spec.plan().empty() ? evaluator.evaluate_baseline(spec.strategy())
                                              : evaluator.evaluate(deserialize_strategy(spec.plan(), "the job's plan"));
  if (!evaluation.feasible()) refuse(evaluation, {});
  return evaluation;
}

}  // namespace

Deployment make_plan(const JobContext& context, const Cluster& cluster, const CostModel& costs) {
  context.set_state(proto::STATE_PLANNING);
  const std::int64_t batch = context.spec.batch();
  const Evaluator evaluator(context.graph, cluster, costs, batch);
  proto::JobEvent event;
  proto::PlanFound& plan = *event.mutable_plan();
  const Evaluation evaluation = chosen(context, evaluator, plan);
  if (context.stop.stop_requested()) throw Cancelled();
  Deployment deployment = std::get<Deployment>(compile(context.graph, cluster, costs, evaluation.strategy, batch));
  *plan.mutable_judged() = judged(evaluation, cluster);
  plan.set_strategy(serialize(evaluation.strategy));
  plan.set_deployment(serialize(deployment));
  *plan.mutable_predicted() =
      predicted(deployment, simulate(context.graph, cluster, costs, deployment, {.keep_events = true}));
  plan.set_lower_bound_seconds(lower_bound(context.graph, cluster, costs, batch).seconds().value);
  context.emit(std::move(event));
  return deployment;
}

}  // namespace motley
