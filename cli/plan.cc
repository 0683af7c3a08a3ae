#include <iostream>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"
#include "compiler/plan_file.h"

namespace motley {

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
  command->callback([options] {
    if (!options->output.empty()) check_can_write(options->output);
    const auto [bench, plan, elapsed] = make_plan(*options);
    if (!options->output.empty() && plan.feasible()) {
      write_file_atomically(options->output,
                            plan_to_yaml({plan.chosen.strategy, options->batch}, bench->graph, bench->cluster));
    }
    if (options->model.json) {
      nlohmann::json json = to_json(plan, bench->cluster);
      json["search_seconds"] = elapsed.value;  // of all degrees
      add_basis(json, bench->basis);
      std::cout << json.dump(2) << "\n";
    } else {
      std::cout << plan_report(plan, *bench->evaluator) << basis_text(bench->basis);
    }
    end_unless(plan.feasible());
  });
}

}  // namespace motley
