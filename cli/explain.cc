#include <iostream>

#include "base/error.h"
#include "cli/accuracy.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"
#include "profiler/catalogue.h"
#include "simulator/trace.h"

namespace motley {
namespace {

struct ExplainOptions : PlanningOptions {
  std::string plan;
  std::string against;
  bool predict = false;  // anew
};

void explain_plan(const ExplainOptions& options) {
  const auto [bench, plan, elapsed] = make_plan(options, true);
  const Evaluation subject =
      options.plan.empty() ? plan.chosen : bench->evaluator->evaluate(strategy_from(options.plan, *bench));
  if (options.model.json) {
    nlohmann::json json = explanation_json(subject, plan, *bench->evaluator);
    add_basis(json, bench->basis);
    std::cout << json.dump(2) << "\n";
  } else {
    std::cout << explanation(subject, plan, *bench->evaluator) << basis_text(bench->basis);
  }
  end_unless(subject.feasible());
}

Timeline predicted_anew(const TraceFile& trace, const ExplainOptions& options) {
  const Cluster cluster = options.cluster.empty() ? trace.cluster : read_cluster(options.cluster, catalogue_defaults);
  const auto same = [](const Device& a, const Device& b) { return a.name == b.name; };
  if (!std::equal(cluster.devices.begin(), cluster.devices.end(), trace.cluster.devices.begin(),
                  trace.cluster.devices.end(), same)) {
    throw Error(ErrorKind::kInvalidInput, options.cluster + ": not the devices that " + options.against + " is of");
  }
  const std::unique_ptr<ProfileStore> store = open_profiles(options.profiles);
  const CostTable costs(trace.graph, cluster, store.get());
  const SimulationResult result = simulate(trace.graph, cluster, costs, trace.deployment, {.keep_events = true});
  return {"predicted", result.events, {}, result.iteration};
}

void explain_error(const ExplainOptions& options) {
  const TraceFile trace = read_trace(options.against);
  if (trace.timelines.empty()) throw Error(ErrorKind::kInvalidInput, options.against + ": there is no timeline in it");
  const bool anew = options.predict || trace.timelines.size() == 1;
  const Comparison comparison =
      compare(trace.graph, trace.deployment, anew ? predicted_anew(trace, options) : trace.timelines.front(),
              trace.timelines.back());
  std::cout << (options.model.json
                    ? accuracy_json(comparison, trace.graph, trace.cluster, trace.deployment).dump(2) + "\n"
                    : accuracy_text(comparison, trace.graph, trace.cluster, trace.deployment));
}

}  // namespace

void add_explain_command(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand(
      "explain",
      "Says which device does what in a plan, why, and by how much the runner-up of each decision loses; or, with "
      "--against, which instructions the error of a prediction comes from.");
  command->footer(
      "Example: motley explain gpt2.pt2 --cluster cluster.yaml --batch 64 --plan plan.yaml\n"
      "Example: motley explain --against run.json");
  add_planning_options(*command, *options);
  add_search_options(*command, *options);
  CLI::Option* plan =
      command->add_option("--plan", options->plan, "a plan file or a strategy's name; without it, what a search finds");
  command
      ->add_option(
          "--against", options->against,
          "a timeline that `run --trace` wrote. Its prediction is compared with its measurement; with --cluster "
          "or --profiles, or when it has none, a new one is. It says what ran on what: no model is needed")
      ->check(CLI::ExistingFile)
      ->excludes(plan)
      ->excludes("--coordinator")
      ->excludes("--headroom");
  CLI::Option* model = command->get_option("model")->required(false);
  CLI::Option* batch = command->get_option("--batch")->required(false);
  command->callback([command, options, model, batch] {
    if (!options->against.empty()) {
      options->predict = command->count("--cluster") + command->count("--profiles") > 0;
      explain_error(*options);
      return;
    }
    for (const CLI::Option* needed : {model, batch}) {
      if (needed->count() == 0) throw CLI::RequiredError(needed->get_name());
    }
    explain_plan(*options);
  });
}

}  // namespace motley
