#include <iostream>
#include <optional>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/report.h"
#include "compiler/plan_file.h"
#include "strategy/search/exact.h"

namespace motley {
namespace {

std::string exact_text(const ExactResult& exact) {
  std::string text = "\nThe best strategy of the finite space ";
  text += exact.best.feasible() ? "takes " + to_string(exact.best.simulation.iteration) : "does not fit";
  text += exact.proved ? " (proved" : " (best so far, not proved";
  return text + " with " + std::to_string(exact.evaluations) + " simulations).\n";
}

}  // namespace

void add_plan_command(CLI::App& app) {
  struct PlanCommandOptions : PlanningOptions {
    std::string output;
  };
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* command = app.add_subcommand("plan", "Searches for the fastest strategy that fits.");
  command->footer("Example: motley plan gpt2.pt2 --cluster cluster.yaml --batch 64 --budget 30 -o plan.yaml");
  add_planning_options(*command, *options);
  add_search_options(*command, *options);
  command->add_option("-o,--output", options->output, "write the plan there (docs/plan.md)");
  command->add_flag(
      "--exact", options->exact,
      "of at most 10 op groups and 4 devices, find also the best strategy of a finite space (docs/plan.md)");
  command->callback([options] {
    if (!options->output.empty()) check_can_write(options->output);
    auto [bench, plan, elapsed] = make_plan(*options, false);
    std::optional<ExactResult> exact;
    if (options->exact) {
      const Interrupt interrupt;
      const Pins pins(bench->graph, bench->cluster, options->pins, options->without);
      exact = exact_optimum(*bench->evaluator, {Seconds(options->budget), interrupt.token(), &pins});
      if (better(exact->best, plan.chosen)) plan.chosen = exact->best;
    }
    if (!options->output.empty() && plan.feasible()) {
      write_file_atomically(options->output,
                            plan_to_yaml({plan.chosen.strategy, options->batch}, bench->graph, bench->cluster));
    }
    if (options->model.json) {
      nlohmann::json json = to_json(plan, bench->cluster);
      json["search_seconds"] = elapsed.value;  // of all degrees
      if (exact) {
        json["exact"] = to_json(exact->best, bench->cluster);
        json["exact"]["proved"] = exact->proved;
      }
      add_basis(json, bench->basis);
      std::cout << json.dump(2) << "\n";
    } else {
      std::cout << plan_report(plan, *bench->evaluator) << basis_text(bench->basis)
                << (exact ? exact_text(*exact) : "");
    }
    end_unless(plan.feasible());
  });
}

}  // namespace motley
