#include "strategy/what_if.h"

#include <algorithm>
#include <iostream>

#include "agent/option_checks.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/what_if_report.h"
#include "profiler/catalogue.h"

namespace motley {
namespace {

struct WhatIfCommand {
  ModelOptions model;
  std::vector<std::string> clusters;
  std::vector<std::string> vary;
  std::string profiles = default_profile_store();
  std::string headroom;
  std::int64_t batch = 0;
  double wanted = 0;  // samples per second
  bool csv = false;
  WhatIfOptions sweep;
};

void run(WhatIfCommand& command) {
  for (const std::string& text : command.vary) command.sweep.vary.push_back(parse_variation(text));
  std::vector<WhatIfCluster> clusters;
  const Headroom headroom = parse_headroom(command.headroom);
  for (const std::string& path : command.clusters) {
    clusters.push_back({path, [path, headroom](const ClusterChanges& changes) {
                          Cluster cluster = read_cluster(path, catalogue_defaults, changes);
                          cluster.leave_free(headroom);
                          return cluster;
                        }});
  }
  const Graph graph = load_training_graph(command.model.path, command.model.training);
  const std::unique_ptr<ProfileStore> store = open_profiles(command.profiles);
  const CostMaker costs = [&store](const Graph& cast, const Cluster& cluster) {
    return std::make_unique<CostTable>(cast, cluster, store.get());
  };
  command.sweep.progress = [](const std::string& what, std::int64_t done, std::int64_t of) {
    show_progress(what + ": " + std::to_string(done) + " of " + std::to_string(of));
  };
  const WhatIf found = what_if(graph, clusters, costs, command.batch, command.sweep);
  clear_progress();
  if (command.model.json) {
    std::cout << to_json(found, command.wanted).dump(2) << "\n";
  } else {
    std::cout << (command.csv ? what_if_csv(found) : what_if_table(found, command.wanted));
  }
  end_unless(std::any_of(found.outcomes.begin(), found.outcomes.end(), [](const auto& one) { return one.feasible(); }));
}

}  // namespace

void add_what_if_command(CLI::App& app) {
  auto options = std::make_shared<WhatIfCommand>();
  CLI::App* command = app.add_subcommand("what-if", "Simulates a job on other machines, or otherwise set.");
  command->footer(
      "Example: motley what-if gpt2.pt2 --cluster cluster.yaml --batch 64 "
      "--vary bandwidth=10Gbps,100Gbps "
      "--vary kind:T4=T4,A10\ndocs/what-if.md says what can be varied.");
  add_model_options(*command, options->model);
  command->add_option("--batch", options->batch, "samples per iteration, over all devices")
      ->required()
      ->check(batch_size());
  command
      ->add_option("--cluster", options->clusters, "the cluster, a YAML file (docs/cluster.md); several are compared")
      ->required()
      ->allow_extra_args(false);
  command
      ->add_option("--vary", options->vary,
                   "what to vary: batch, dtype, nodes, devices, kind, "
                   "bandwidth, lost or speed, as in "
                   "bandwidth:LINK=10Gbps,x2; several: every combination")
      ->allow_extra_args(false);
  add_headroom_option(*command, options->headroom);
  command->add_option("--strategy", options->sweep.strategies, "strategies by name, of which the best counts");
  command->add_option("--evaluations", options->sweep.evaluations, "search each scenario for a better one for so many")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--samples-per-second", options->wanted, "tell the cheapest scenario that does as many")
      ->check(above_zero());
  command->add_option("--draws", options->sweep.draws, "iterations with stragglers to draw per scenario")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--noise", options->sweep.noise, "for draws: deviation of estimated costs, as a share of them")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  command->add_flag("!--no-remedies", options->sweep.remedies, "do not try what would remove the bottlenecks");
  command->add_option("--seed", options->sweep.seed, "of the search and the draws")->capture_default_str();
  command->add_option("--threads", options->sweep.threads, "0: all cores")->check(at_least(0))->capture_default_str();
  command->add_option("--profiles", options->profiles, "the store of what was measured")->capture_default_str();
  command->add_flag("--csv", options->csv, "print the result as CSV");
  command->callback([options] { run(*options); });
}

}  // namespace motley
