#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "agent/checkpoint.h"
#include "agent/data.h"
#include "agent/option_checks.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/text_table.h"
#include "cli/trained.h"
#include "compiler/plan_file.h"
#include "compiler/serialize.h"
#include "strategy/baselines.h"
#include "strategy/evaluate.h"

namespace motley {
namespace {

struct RunOptions {
  ModelOptions model;
  SessionOptions session;
  std::vector<std::string> strategies{"search"};
  std::int64_t batch = 0;
  std::string data;
  std::int64_t iterations = 100;
  std::string headroom;
  double budget = 10;
  double profile_budget = 50;
  std::uint64_t seed = 0;
  std::string output;
  std::int64_t checkpoint_every = 0;
  std::string resume;
  std::int64_t first_iteration = 0;  // done before: by what is resumed
  std::string trace;
};

void add_run_options(CLI::App& command, RunOptions& options) {
  add_model_options(command, options.model);
  add_session_options(command, options.session);
  command.add_option("--batch", options.batch, "samples per iteration, over all devices")
      ->required()
      ->check(batch_size());
  command.add_option("--data", options.data, "folder with one array per model input (docs/data.md)")->required();
  command
      .add_option("--strategy", options.strategies,
                  "a strategy's name, a plan file, or \"search\"; with several, each runs in turn from the same start")
      ->capture_default_str();
  command.add_option("--iterations", options.iterations, "how many; after --resume, how many more")
      ->check(at_least(1))
      ->capture_default_str();
  add_headroom_option(command, options.headroom);
  command.add_option("--budget", options.budget, "seconds that the search may take")
      ->check(at_least(0))
      ->capture_default_str();
  command.add_option("--profile-budget", options.profile_budget, "seconds per device that profiling may take")
      ->check(above_zero())
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of the data's order, random ops and the search")
      ->check(at_least(0))
      ->capture_default_str();
  CLI::Option* output = command.add_option(
      "-o,--output", options.output, "folder for checkpoints and the final weights; of several strategies, the last's");
  command.add_option("--checkpoint-every", options.checkpoint_every, "iterations; 0: never")
      ->check(at_least(0))
      ->needs(output)
      ->capture_default_str();
  command.add_option("--resume", options.resume, "a checkpoint to go on from (docs/checkpoint.md)");
  command.add_option("--trace", options.trace, "write predicted and measured timeline of the last strategy there");
}

// What would fail only after minutes of profiling.
void check(RunOptions& options, const Graph& graph) {
  check_batch(graph, options.batch);
  if (!options.resume.empty()) options.first_iteration = check_checkpoint(options.resume, graph);
  // A coordinator elsewhere has data and output on its own machines.
  const bool here = options.session.coordinator.empty();
  if (here || std::filesystem::is_directory(options.data)) {
    static_cast<void>(Dataset(options.data, graph, options.batch, options.seed));
  }
  for (const std::string& strategy : options.strategies) {
    if (!names_plan_file(strategy) && strategy != "search") check_strategy_name(strategy, {});
  }
  if (here && !options.output.empty()) make_output_folder(options.output);
  if (!options.trace.empty()) check_can_write(options.trace);
}

proto::JobSpec job_of(const RunOptions& options, const Graph& graph, const Session& session) {
  proto::JobSpec spec = job_on(session, options.model.path, graph, options.batch);
  spec.set_kind(proto::JOB_RUN);
  spec.set_search_seconds(options.budget);
  spec.set_profile_seconds(options.profile_budget);
  spec.set_headroom(options.headroom);
  spec.set_data(std::filesystem::absolute(options.data));
  spec.set_seed(options.seed);
  spec.set_iterations(options.iterations);
  spec.set_checkpoint_every(options.checkpoint_every);
  if (!options.output.empty()) spec.set_output(std::filesystem::absolute(options.output));
  if (!options.resume.empty()) {
    spec.set_checkpoint_hash(session.client().upload(options.resume));
    spec.set_first_iteration(options.first_iteration);
  }
  // A few from the middle: warm, and undisturbed by start and end.
  const std::int64_t measured = std::min<std::int64_t>(5, options.iterations);
  for (std::int64_t i = 0; i < measured; ++i) {
    spec.add_timeline_iterations(options.first_iteration + (options.iterations - measured) / 2 + i);
  }
  return spec;
}

Trained train(Session& session, const Graph& graph, proto::JobSpec spec, const std::string& strategy,
              const RunOptions& options) {
  if (names_plan_file(strategy)) {
    // A plan names devices, so it can be read only when the cluster is known.
    spec.set_plan(serialize(read_plan(strategy, graph, profile(session, spec).cluster).strategy));
  } else {
    spec.set_strategy(strategy);
  }
  Trained trained;
  session.run(spec, [&](const proto::JobEvent& event) {
    trained.add(event);
    if (event.has_progress()) show_progress(event.progress().what());
    if (event.has_metrics()) {
      std::array<char, 160> line{};
      std::snprintf(line.data(), line.size(), "%s: iteration %lld of %lld, loss %.4f, %s", strategy.c_str(),
                    static_cast<long long>(event.metrics().iteration()) + 1,
                    static_cast<long long>(options.first_iteration) + options.iterations, event.metrics().loss(),
                    to_string(Seconds(event.metrics().seconds())).c_str());
      show_progress(line.data());
    }
    if (event.has_saved() && !options.model.json) {
      clear_progress();
      std::cout << "saved " << event.saved() << "\n";
    }
  });
  return trained;
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Profiles, plans and trains, on a cluster or on agents started in place.");
  command->footer(
      "Example: motley run gpt2.pt2 --batch 42 --data data --agent name=a --agent name=b,speed=0.5 --iterations 50 -o "
      "out");
  add_run_options(*command, *options);
  command->callback([options] {
    const Graph graph = load_training_graph(options->model.path, options->model.training);
    check(*options, graph);
    Session session(options->session);
    const proto::JobSpec spec = job_of(*options, graph, session);
    std::vector<Trained> all;
    try {
      for (const std::string& strategy : options->strategies) {
        all.push_back(train(session, graph, spec, strategy, *options));
      }
    } catch (...) {
      // Of a coordinator in place that was killed; one elsewhere sees to its own.
      if (options->session.coordinator.empty()) remove_left_halves(options->output);
      throw;
    }
    if (!options->trace.empty()) write_file_atomically(options->trace, all.back().trace(graph));
    if (options->model.json) {
      nlohmann::json list = nlohmann::json::array();
      for (const Trained& trained : all) list.push_back(trained.to_json(graph));
      std::cout << list.dump(2) << "\n";
    } else {
      std::cout << run_table(all) << "\n" << run_memory_table(all);
    }
  });
}

}  // namespace motley
