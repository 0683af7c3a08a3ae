#include <iostream>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"
#include "compiler/compiler.h"
#include "simulator/trace.h"

namespace motley {
namespace {

struct SimulateOptions : PlanningOptions {
  std::string strategy;
  std::string trace;
};

void write_trace(const Workbench& bench, const Strategy& strategy, const std::string& path) {
  const Deployment deployment =
      std::get<Deployment>(compile(bench.graph, bench.cluster, *bench.costs, strategy, bench.evaluator->batch()));
  SimulationOptions options;
  options.keep_events = true;
  const SimulationResult result = simulate(bench.graph, bench.cluster, *bench.costs, deployment, options);
  write_file_atomically(
      path, trace_json(bench.graph, bench.cluster, deployment, {{"predicted", result.events, result.memory_samples}}));
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand("simulate", "Simulates one strategy: time, memory and role of each device.");
  command->footer(
      "Example: motley simulate gpt2.pt2 --cluster cluster.yaml --batch 64 --strategy cp-ar --trace timeline.json");
  add_planning_options(*command, *options);
  command->add_option("--strategy", options->strategy, "a strategy's name, or a plan file")->required();
  command->add_option("--trace", options->trace, "write the timeline there, for Perfetto or chrome://tracing");
  command->callback([options] {
    const auto bench = make_workbench(*options);
    const Evaluation evaluation = bench->evaluator->evaluate(strategy_from(options->strategy, *bench));
    if (!options->trace.empty() && !evaluation.not_compilable) {
      write_trace(*bench, evaluation.strategy, options->trace);
    }
    if (options->model.json) {
      nlohmann::json json = to_json(evaluation, bench->cluster);
      add_basis(json, bench->basis);
      std::cout << json.dump(2) << "\n";
    } else {
      std::cout << comparison_table({evaluation}, bench->cluster) << "\n"
                << device_table(evaluation, *bench->evaluator) << "\n"
                << memory_table(evaluation, bench->cluster) << basis_text(bench->basis);
    }
    end_unless(evaluation.feasible());
  });
}

}  // namespace motley
