#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "agent/option_checks.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/text_table.h"
#include "coordinator/client.h"

namespace motley {
namespace {

// "STATE_RUNNING" -> "running".
std::string state_name(proto::JobState state) {
  std::string name = proto::JobState_Name(state).substr(6);
  for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return name;
}

nlohmann::json to_json(const proto::StatusResponse& status) {
  nlohmann::json json{{"nodes", nlohmann::json::array()}, {"jobs", nlohmann::json::array()}};
  for (const auto& node : status.nodes()) {
    nlohmann::json devices = nlohmann::json::array();
    for (const auto& device : node.node().devices()) {
      devices.push_back({{"name", device.name()}, {"kind", device.kind()}, {"memory_bytes", device.memory()}});
    }
    json["nodes"].push_back({{"name", node.node().name()},
                             {"address", node.node().address()},
                             {"alive", node.alive()},
                             {"last_heard_seconds", node.last_heard_seconds()},
                             {"devices", devices}});
  }
  for (const auto& job : status.jobs()) {
    json["jobs"].push_back({{"job", job.job()},
                            {"state", state_name(job.state())},
                            {"model", job.model()},
                            {"iteration", job.iteration()},
                            {"iterations", job.iterations()},
                            {"submitted", job.submitted()},
                            {"message", job.message()}});
  }
  return json;
}

std::string to_text(const proto::StatusResponse& status) {
  TextTable nodes({"node", "address", "state", "> heard of", "devices"});
  for (const auto& node : status.nodes()) {
    std::string devices;
    for (const auto& device : node.node().devices()) {
      devices += (devices.empty() ? "" : ", ") + device.name() + " (" + device.kind() + ", " +
                 to_string(Bytes(device.memory())) + ")";
    }
    nodes.add({node.node().name(), node.node().address(), node.alive() ? "alive" : "lost",
               to_string(Seconds(node.last_heard_seconds())) + " ago", devices});
  }
  TextTable jobs({"> job", "state", "model", "> iterations", "message"});
  for (const auto& job : status.jobs()) {
    jobs.add({std::to_string(job.job()), state_name(job.state()), job.model(),
              std::to_string(job.iteration()) + " of " + std::to_string(job.iterations()), job.message()});
  }
  return nodes.to_string() + "\n" + jobs.to_string();
}

}  // namespace

void add_status_command(CLI::App& app) {
  struct StatusOptions {
    std::string coordinator = "127.0.0.1:7070";
    bool json = false;
  };
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = app.add_subcommand("status", "Shows the nodes and jobs of a coordinator.");
  command->footer("Example: motley status --coordinator 10.0.0.1:7070");
  command->add_option("--coordinator", options->coordinator, "whose")->check(host_and_port())->capture_default_str();
  command->add_flag("--json", options->json, "print the result as JSON");
  command->callback([options] {
    const proto::StatusResponse status = CoordinatorClient(options->coordinator).status();
    std::cout << (options->json ? to_json(status).dump(2) + "\n" : to_text(status));
  });
}

}  // namespace motley
