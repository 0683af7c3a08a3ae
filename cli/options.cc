#include "cli/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
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
#include "strategy/policy/load.h"
#include "strategy/search/exact.h"

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

void add_profiled_options(CLI::App& command, ProfiledOptions& options) {
  CLI::Option* model = command.get_option("model");
  model->description(model->get_description() + "; or layers and times that others profiled (docs/profiles.md)");
  command
      .add_option("--tensor-parallel", options.tensor_parallel,
                  "for others' profiles: GPUs that hold each layer together, as one device; unless given, a plan "
                  "chooses of all degrees that were profiled")
      ->check(at_least(1));
  command.add_option("--layer-output", options.layer_output,
                     "for Metis's profiles, which do not tell it: what a layer hands on for one sample, such as 4MiB");
}

std::unique_ptr<ProfiledModel> profiled_model(const std::string& path, const ProfiledOptions& options) {
  return read_profiled_model(path, options.layer_output.empty() ? Bytes(0) : parse_bytes(options.layer_output));
}

std::int64_t degree_of(const ProfiledModel& model, const ProfiledOptions& options) {
  if (options.tensor_parallel > 0) return options.tensor_parallel;
  const std::vector<std::string> kinds = model.kinds();
  std::int64_t least = model.degrees(kinds.empty() ? "" : kinds.front()).front();
  for (const std::string& kind : kinds) least = std::min(least, model.degrees(kind).front());
  return least;
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
  add_profiled_options(command, options.profiled);
  command.add_option("--batch", options.batch, "samples per iteration, over all devices")
      ->required()
      ->check(batch_size());
  CLI::Option* coordinator = command.add_option("--coordinator", options.coordinator,
                                                "a coordinator: its devices and links, measured if need be");
  coordinator->check(host_and_port());
  CLI::Option* cluster = command.add_option("--cluster", options.cluster, "the cluster, a YAML file (docs/cluster.md)")
                             ->excludes(coordinator);
  command
      .add_option("--gpus", options.gpus,
                  "for Sailor's profiles: so many GPUs of a kind, as in A100-40=16,V100-16=16, on nodes and links as "
                  "its files tell")
      ->delimiter(',')
      ->excludes(coordinator)
      ->excludes(cluster);
  command
      .add_option("--profiled-on", options.profiled_on,
                  "for others' profiles: the kind of device whose times, scaled by the catalogue's rates, hold for "
                  "kinds that were not profiled")
      ->excludes(coordinator);
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
  command
      .add_option("--evaluations", options.evaluations,
                  "strategies that the search may judge; the same number and seed give the same plan, if the budget "
                  "is large enough; 0: any number")
      ->check(at_least(0))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of the search")->check(at_least(0))->capture_default_str();
  command
      .add_option("--policy", options.policy,
                  "weights of the policy that guides the search (docs/policy.md), or none; without it, those that come "
                  "with motley")
      ->check(CLI::ExistingFile | CLI::IsMember({"none"}));
  command
      .add_option("--pin", options.pins,
                  "what runs where: GROUPS=WHERE,... with the name of an op group or module, or a pattern of such, and "
                  "devices or nodes; once for each (docs/plan.md)")
      ->allow_extra_args(false);
  command.add_option("--without", options.without, "a device or node that shall not be used; once for each")
      ->allow_extra_args(false);
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

namespace {

// "A100-40=16"
std::map<std::string, std::int64_t> counts_of(const std::vector<std::string>& gpus) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : gpus) {
    const std::size_t equals = text.find('=');
    std::int64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto read = equals == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                  : std::from_chars(text.data() + equals + 1, end, count);
    if (read.ec != std::errc() || read.ptr != end || count < 1 || count > 4096 ||
        !counts.emplace(text.substr(0, equals), count).second) {
      throw Error(ErrorKind::kInvalidInput,
                  "--gpus " + text + ": should be KIND=COUNT, each kind once, up to 4096 of it");
    }
  }
  return counts;
}

Cluster gpus_for(const ProfiledModel& model, const PlanningOptions& options) {
  if (!options.coordinator.empty()) {
    throw Error(ErrorKind::kUnsupported,
                model.title() + " cannot be run, so there is nothing to measure: give --cluster FILE, or --gpus");
  }
  if (options.cluster.empty() && options.gpus.empty()) {
    throw Error(ErrorKind::kInvalidInput, "no cluster is named: give --cluster FILE, or for Sailor's profiles --gpus");
  }
  return options.gpus.empty() ? read_cluster(options.cluster, catalogue_defaults)
                              : model.cluster(counts_of(options.gpus));
}

void finish(Workbench& bench, const PlanningOptions& options) {
  check_batch(bench.graph, options.batch);
  bench.cluster.leave_free(parse_headroom(options.headroom));
  bench.evaluator = std::make_unique<Evaluator>(bench.graph, bench.cluster, *bench.costs, options.batch);
}

std::unique_ptr<Workbench> bench_on(const ProfiledModel& model, const Cluster& gpus, std::int64_t degree,
                                    const PlanningOptions& options) {
  ProfiledJob job = job_on(model, gpus, degree, options.profiled_on);
  auto bench = std::make_unique<Workbench>(
      Workbench{std::move(job.graph), std::move(job.cluster), std::move(job.costs), nullptr, std::move(job.basis)});
  finish(*bench, options);
  return bench;
}

std::unique_ptr<Workbench> bench_of_program(const PlanningOptions& options) {
  if (!options.gpus.empty() || !options.profiled_on.empty() || options.profiled.tensor_parallel > 0 ||
      !options.profiled.layer_output.empty()) {
    throw Error(ErrorKind::kInvalidInput, options.model.path +
                                              ": --gpus, --profiled-on, --tensor-parallel and --layer-output are for "
                                              "models that others profiled (docs/profiles.md)");
  }
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
  finish(*bench, options);
  return bench;
}

// One for each tensor-parallel degree that is to be tried.
std::vector<std::unique_ptr<Workbench>> make_workbenches(const PlanningOptions& options) {
  std::vector<std::unique_ptr<Workbench>> benches;
  const std::unique_ptr<ProfiledModel> model = profiled_model(options.model.path, options.profiled);
  if (model == nullptr) {
    benches.push_back(bench_of_program(options));
    return benches;
  }
  const Cluster gpus = gpus_for(*model, options);
  const std::int64_t given = options.profiled.tensor_parallel;
  for (const std::int64_t degree : given > 0 ? std::vector{given} : degrees_on(*model, gpus, options.profiled_on)) {
    benches.push_back(bench_on(*model, gpus, degree, options));
  }
  return benches;
}

}  // namespace

std::unique_ptr<Workbench> make_workbench(const PlanningOptions& options) {
  return std::move(make_workbenches(options).front());
}

Planned make_plan(const PlanningOptions& options, bool all_baselines) {
  std::vector<std::unique_ptr<Workbench>> benches = make_workbenches(options);
  const Interrupt interrupt;
  SearchOptions search;
  search.all_baselines = all_baselines;
  if (options.evaluations > 0) search.evaluations = options.evaluations;
  search.seed = options.seed;
  std::unique_ptr<Prior> prior;
  if (options.policy.empty()) {
    if (options.budget > 0) prior = load_shipped_policy();
  } else if (options.policy != "none") {
    prior = load_policy(options.policy);
  }
  search.prior = prior.get();
  search.stop = interrupt.token();
  if (::isatty(STDERR_FILENO) != 0) {
    search.progress = [&search](const SearchProgress& progress) {
      const Evaluation& best = progress.best;
      std::fprintf(stderr, "\r\033[Ksearch: %s of %s, %lld strategies, best %s", to_string(progress.elapsed).c_str(),
                   to_string(search.time).c_str(), static_cast<long long>(progress.evaluations),
                   best.feasible() ? to_string(best.simulation.iteration).c_str() : "does not fit");
      if (progress.elapsed >= search.time) std::fputs("\r\033[K", stderr);
    };
  }
  Planned best;
  for (std::size_t i = 0; i < benches.size(); ++i) {
    Workbench& bench = *benches[i];
    if (options.exact) check_exact(bench.graph, bench.cluster);
    const Pins pins(bench.graph, bench.cluster, options.pins, options.without);
    search.pins = &pins;
    search.time = (Seconds(options.budget) - best.elapsed) / static_cast<double>(benches.size() - i);
    Plan plan = motley::plan(bench.graph, bench.cluster, *bench.costs, options.batch, search);
    best.elapsed += plan.elapsed;
    if (best.bench != nullptr && !better(plan.chosen, best.plan.chosen)) continue;
    best.bench = std::move(benches[i]);
    best.plan = std::move(plan);
  }
  return best;
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
