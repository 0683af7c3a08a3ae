#include "cli/options.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "agent/option_checks.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "compiler/plan_file.h"
#include "profiler/catalogue.h"
#include "profiler/profile_message.h"
#include "strategy/baselines.h"

namespace motley {

void add_model_options(CLI::App& command, ModelOptions& options) {
  static const std::map<std::string, OptimizerOptions::Kind> kOptimizers{{"sgd", OptimizerOptions::Kind::kSgd},
                                                                         {"adam", OptimizerOptions::Kind::kAdam},
                                                                         {"adamw", OptimizerOptions::Kind::kAdamW}};
  OptimizerOptions& optimizer = options.training.optimizer;
  command.add_option("model", options.path, "the model, as torch.export.save wrote it (.pt2)")->required();
  command
      .add_option_function<std::string>(
          "--optimizer", [&optimizer](const std::string& name) { optimizer.kind = kOptimizers.at(name); },
          "that updates the parameters")
      ->check(CLI::IsMember(kOptimizers))
      ->default_str("sgd");
  const auto number = [&](const char* name, double& value, const CLI::Validator& check, const char* what) {
    command.add_option(name, value, what)->check(check)->capture_default_str();
  };
  number("--learning-rate", optimizer.learning_rate, at_least(0), "of the optimizer");
  number("--momentum", optimizer.momentum, at_least(0), "of sgd");
  number("--beta1", optimizer.beta1, fraction(), "of adam and adamw");
  number("--beta2", optimizer.beta2, fraction(), "of adam and adamw");
  number("--epsilon", optimizer.epsilon, at_least(0), "of adam and adamw");
  number("--weight-decay", optimizer.weight_decay, at_least(0), "of the optimizer");
  command.add_option("--max-groups", options.training.max_groups, "at most so many op groups")
      ->check(at_least(1))
      ->capture_default_str();
  command.add_flag("--json", options.json, "print the result as JSON");
}

void add_headroom_option(CLI::App& command, std::string& headroom) {
  headroom = "0";
  command
      .add_option("--headroom", headroom,
                  "of each device's memory, to leave free: 10%, or 1GiB; what needs more than the rest does not fit")
      ->check(motley::headroom())
      ->capture_default_str();
}

void add_planning_options(CLI::App& command, PlanningOptions& options) {
  add_model_options(command, options.model);
  command.add_option("--batch", options.batch, "samples per iteration, over all devices")
      ->required()
      ->check(batch_size());
  CLI::Option* coordinator = command.add_option("--coordinator", options.coordinator,
                                                "a coordinator: its devices and links, measured if need be");
  coordinator->check(host_and_port());
  command.add_option("--cluster", options.cluster, "the cluster, a YAML file (docs/cluster.md)")->excludes(coordinator);
  options.profiles = default_profile_store();
  command.add_option("--profiles", options.profiles, "the store of what was measured, for --cluster")
      ->excludes(coordinator)
      ->capture_default_str();
  add_headroom_option(command, options.headroom);
}

void add_search_options(CLI::App& command, PlanningOptions& options) {
  command.add_option("--budget", options.budget, "seconds that the search may take")
      ->check(at_least(0))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of the search")->check(at_least(0))->capture_default_str();
}

Plan make_plan(const Workbench& bench, const PlanningOptions& options) {
  const Interrupt interrupt;
  SearchOptions search;
  search.time = Seconds(options.budget);
  search.seed = options.seed;
  search.stop = interrupt.token();
  if (::isatty(STDERR_FILENO) != 0) {
    search.progress = [budget = search.time](const SearchProgress& progress) {
      const Evaluation& best = progress.best;
      std::fprintf(stderr, "\r\033[Ksearch: %s of %s, %lld strategies, best %s", to_string(progress.elapsed).c_str(),
                   to_string(budget).c_str(), static_cast<long long>(progress.evaluations),
                   best.feasible() ? to_string(best.simulation.iteration).c_str() : "does not fit");
      if (progress.elapsed >= budget) std::fputs("\r\033[K", stderr);
    };
  }
  return plan(bench.graph, bench.cluster, *bench.costs, bench.evaluator->batch(), search);
}

std::string default_profile_store() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path folder = data != nullptr
                                           ? std::filesystem::path(data)
                                           : std::filesystem::path(home != nullptr ? home : ".") / ".local/share";
  return folder / "motley" / "profiles.sqlite";
}

namespace {

void take_from_coordinator(Workbench& bench, const PlanningOptions& options) {
  SessionOptions where;
  where.coordinator = options.coordinator;
  Session session(where);
  const Profiled found = profile(session, job_on(session, options.model.path, bench.graph, options.batch));
  bench.cluster = found.cluster;
  ProfileStore store(":memory:");
  add_to(store, found.costs);
  CostTableOptions costs;
  for (const auto& device : found.costs.devices()) {
    costs.fingerprints[device.name()] = from_message(device.fingerprint());
  }
  bench.costs = std::make_unique<CostTable>(bench.graph, bench.cluster, &store, costs);
}

}  // namespace

std::unique_ptr<ProfileStore> open_profiles(const std::string& path) {
  if (std::filesystem::exists(path)) return std::make_unique<ProfileStore>(path);
  if (path != default_profile_store()) {
    std::fprintf(stderr, "motley: %s: there is no such profile store; costs are estimated\n", path.c_str());
  }
  return nullptr;
}

std::unique_ptr<Workbench> make_workbench(const PlanningOptions& options) {
  auto bench = std::make_unique<Workbench>();
  bench->graph = load_training_graph(options.model.path, options.model.training);
  check_batch(bench->graph, options.batch);
  if (!options.coordinator.empty()) {
    take_from_coordinator(*bench, options);
  } else if (!options.cluster.empty()) {
    bench->cluster = read_cluster(options.cluster, catalogue_defaults);
    const std::unique_ptr<ProfileStore> store = open_profiles(options.profiles);
    bench->costs = std::make_unique<CostTable>(bench->graph, bench->cluster, store.get());
  } else {
    throw Error(ErrorKind::kInvalidInput, "no cluster is named: give --cluster FILE, or --coordinator HOST:PORT");
  }
  bench->cluster.leave_free(parse_headroom(options.headroom));
  bench->evaluator = std::make_unique<Evaluator>(bench->graph, bench->cluster, *bench->costs, options.batch);
  return bench;
}

bool names_plan_file(const std::string& strategy) {
  if (std::filesystem::is_regular_file(strategy)) return true;
  const std::filesystem::path path = strategy;
  if (strategy.starts_with("mp:") || (!path.has_extension() && !path.has_parent_path())) return false;
  throw Error(ErrorKind::kNotFound, strategy + ": there is no such plan file, and no strategy has this name");
}

Strategy strategy_from(const std::string& text, const Workbench& bench) {
  if (names_plan_file(text)) return read_plan(text, bench.graph, bench.cluster).strategy;
  return baseline(text, bench.graph, bench.cluster, *bench.costs, bench.evaluator->batch());
}

void end_unless(bool fits) {
  if (!fits) throw CLI::RuntimeError(2);
}

}  // namespace motley
