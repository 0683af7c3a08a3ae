#include <iostream>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"

namespace motley {

void add_explain_command(CLI::App& app) {
  struct ExplainOptions : PlanningOptions {
    std::string plan;
  };
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand(
      "explain", "Says which device does what in a plan, why, and by how much the runner-up of each decision loses.");
  command->footer("Example: motley explain gpt2.pt2 --cluster cluster.yaml --batch 64 --plan plan.yaml");
  add_planning_options(*command, *options);
  add_search_options(*command, *options);
  command->add_option("--plan", options->plan, "a plan file or a strategy's name; without it, what a search finds");
  command->callback([options] {
    const auto bench = make_workbench(*options);
    const Plan plan = make_plan(*bench, *options);
    const Evaluation subject =
        options->plan.empty() ? plan.chosen : bench->evaluator->evaluate(strategy_from(options->plan, *bench));
    std::cout << (options->model.json ? explanation_json(subject, plan, *bench->evaluator).dump(2) + "\n"
                                      : explanation(subject, plan, *bench->evaluator));
  });
}

}  // namespace motley
