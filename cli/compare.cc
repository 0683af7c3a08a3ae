#include <algorithm>
#include <iostream>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"

namespace motley {

void add_compare_command(CLI::App& app) {
  auto options = std::make_shared<PlanningOptions>();
  CLI::App* command = app.add_subcommand("compare", "Simulates every named strategy, and the one that a search finds.");
  command->footer("Example: motley compare gpt2.pt2 --cluster cluster.yaml --batch 64 --json");
  add_planning_options(*command, *options);
  add_search_options(*command, *options);
  command->callback([options] {
    auto [bench, plan, elapsed] = make_plan(*options, true);
    std::vector<Evaluation> evaluations = std::move(plan.baselines);
    evaluations.push_back(std::move(plan.chosen));
    if (options->model.json) {
      nlohmann::json list = nlohmann::json::array();
      for (const Evaluation& evaluation : evaluations) list.push_back(to_json(evaluation, bench->cluster));
      std::cout << list.dump(2) << "\n";
    } else {
      std::cout << comparison_table(evaluations, bench->cluster) << basis_text(bench->basis);
    }
    end_unless(std::any_of(evaluations.begin(), evaluations.end(), [](const auto& one) { return one.feasible(); }));
  });
}

}  // namespace motley
