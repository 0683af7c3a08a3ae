#include <iostream>

#include "agent/option_checks.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "graph/summary.h"
#include "strategy/evaluate.h"

namespace motley {

void add_inspect_command(CLI::App& app) {
  struct InspectOptions : ModelOptions {
    ProfiledOptions profiled;
    std::int64_t batch = 1;
  };
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Shows a model's ops, parameters, FLOPs, memory and op groups.");
  command->footer("Example: motley inspect gpt2.pt2 --batch 8 --optimizer adamw");
  add_model_options(*command, *options);
  add_profiled_options(*command, options->profiled);
  command->add_option("--batch", options->batch, "samples, for FLOPs and memory")
      ->check(batch_size())
      ->capture_default_str();
  command->callback([options] {
    const std::unique_ptr<ProfiledModel> profiled = profiled_model(options->path, options->profiled);
    const Graph graph = profiled ? profiled->graph(degree_of(*profiled, options->profiled))
                                 : load_training_graph(options->path, options->training);
    check_batch(graph, options->batch);
    const GraphSummary summary = summarize(graph, options->batch);
    std::cout << (options->json ? to_json(summary) + "\n" : to_text(summary));
    if (profiled && !options->json) {
      std::cout << "\nSizes are those of " << profiled->title() << "; FLOPs are unknown: its layers are opaque.\n";
    }
  });
}

}  // namespace motley
