#include <iostream>
#include <nlohmann/json.hpp>

#include "agent/option_checks.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/text_table.h"

namespace motley {
namespace {

struct ProfileOptions {
  ModelOptions model;
  SessionOptions session;
  std::int64_t batch = 0;
  double budget = 50;
  bool side_by_side = false;
  std::string output;
};

nlohmann::json links_json(const Cluster& cluster) {
  nlohmann::json links = nlohmann::json::array();
  for (const Link& link : cluster.links) {
    links.push_back(
        {{"link", link.name}, {"bytes_per_second", link.bandwidth.value}, {"latency_seconds", link.latency.value}});
  }
  return links;
}

std::string cluster_tables(const Cluster& cluster) {
  TextTable devices({"device", "kind", "> memory"});
  for (const Device& device : cluster.devices) devices.add({device.name, device.kind, to_string(device.memory)});
  TextTable links({"link", "> bandwidth", "> latency"});
  for (const Link& link : cluster.links) {
    links.add({link.name, to_string(link.bandwidth), to_string(link.latency)});
  }
  return devices.to_string() + "\n" + links.to_string();
}

}  // namespace

void add_profile_command(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* command = app.add_subcommand(
      "profile",
      "Measures a model's ops on every device and the links between them; what is known is not measured again.");
  command->footer("Example: motley profile gpt2.pt2 --batch 64 --coordinator 10.0.0.1:7070 -o cluster.yaml");
  add_model_options(*command, options->model);
  add_session_options(*command, options->session);
  command->add_option("--batch", options->batch, "the largest batch that a device may get")
      ->required()
      ->check(batch_size());
  command->add_option("--budget", options->budget, "seconds per device")->check(above_zero())->capture_default_str();
  command->add_flag("--side-by-side", options->side_by_side, "measure devices of one machine at the same time");
  command->add_option("-o,--output", options->output,
                      "write the cluster that was found there (docs/cluster.md), to plan for without it");
  command->callback([options] {
    if (!options->output.empty()) check_can_write(options->output);
    const Graph graph = load_training_graph(options->model.path, options->model.training);
    Session session(options->session);
    proto::JobSpec spec = job_on(session, options->model.path, graph, options->batch);
    spec.set_profile_seconds(options->budget);
    spec.set_profile_side_by_side(options->side_by_side);
    const Profiled found = profile(session, spec);
    const Cluster& cluster = found.cluster;
    if (!options->output.empty()) {
      // For planning without the coordinator, its figures are wanted beside its cluster.
      if (!options->session.coordinator.empty()) {
        make_output_folder(std::filesystem::absolute(options->session.profiles).parent_path());
        ProfileStore store(options->session.profiles);
        add_to(store, found.costs);
      }
      write_file_atomically(options->output, to_yaml(cluster));
    }
    std::cout << (options->model.json ? links_json(cluster).dump(2) + "\n" : cluster_tables(cluster));
  });
}

}  // namespace motley
