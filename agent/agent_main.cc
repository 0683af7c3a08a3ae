// motley-agent: one per node.

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/devices.h"
#include "agent/option_checks.h"
#include "agent/program.h"
#include "base/file.h"

namespace {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  const std::string text = name;
  return text.substr(0, text.find('.'));
}

int run(int argc, char** argv) {
  using namespace motley;
  take_signals();
  CLI::App app(
      "The agent of a node: offers its devices to a coordinator and runs workers for it.\n\n"
      "  motley-agent --coordinator 10.0.0.1:7070 --listen 10.0.0.2:7071\n",
      "motley-agent");
  DeviceOptions devices;
  devices.node = host_name();
  AgentOptions options;
  options.listen = "127.0.0.1:7071";
  options.coordinator = "127.0.0.1:7070";
  std::string state = "/var/lib/motley/agent";
  std::string blobs;
  std::string data_address;
  std::string address_file;
  app.add_option("--name", devices.node, "of this node")->capture_default_str();
  app.add_option("--coordinator", options.coordinator, "of the coordinator")
      ->check(host_and_port())
      ->capture_default_str();
  app.add_option("--listen", options.listen, "to serve on; port 0: any free one")
      ->check(host_and_port())
      ->capture_default_str();
  app.add_option("--advertise", options.advertise, "host by which others reach this agent; default: that of --listen");
  app.add_option("--data-address", data_address, "IP address for data between workers; default: as --advertise");
  app.add_option("--state", state, "folder for files of jobs")->capture_default_str();
  app.add_option("--blobs", blobs, "folder for models and checkpoints; default: in --state");
  add_blob_limit(app, options.blob_limit);
  app.add_option("--cpu-devices", devices.cpu_devices, "how many CPU devices; default: one when there is no GPU")
      ->check(at_least(-1));
  app.add_option("--threads", devices.threads, "of each CPU device; default: the cores, shared evenly")
      ->check(at_least(0));
  app.add_option("--emulate", devices.emulation,
                 "make the CPU devices slower: speed=0.5,bandwidth=200Mbps,latency=1ms");
  app.add_option("--address-file", address_file, "file to write the address to, once it serves");
  if (const auto end = parse_options(app, argc, argv)) return *end;

  auto node = describe_node(devices);
  node.set_name(devices.node);
  node.set_data_address(data_address);
  options.state = state;
  options.blobs = blobs;
  options.worker_program = sibling_program("motley-worker");
  Agent agent(node, options);
  for (const auto& device : node.devices()) spdlog::info("{}: {}", device.name(), device.kind());
  spdlog::info("listening on {}", agent.address());
  if (!address_file.empty()) write_file_atomically(address_file, agent.address());
  wait_for_signal([&] { return !agent.refusal().empty(); });
  spdlog::info("ending");
  return agent.refusal().empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return motley::guarded_main("motley-agent", [&] { return run(argc, argv); });
}
