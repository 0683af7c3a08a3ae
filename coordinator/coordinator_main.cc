// motley-coordinator: one per cluster.

#include <spdlog/spdlog.h>

#include "agent/option_checks.h"
#include "agent/program.h"
#include "base/file.h"
#include "coordinator/coordinator.h"

namespace {

int run(int argc, char** argv) {
  using namespace motley;
  take_signals();
  CLI::App app(
      "The coordinator of a cluster: knows its nodes, plans and runs jobs on them.\n\n"
      "  motley-coordinator --listen 10.0.0.1:7070\n",
      "motley-coordinator");
  CoordinatorOptions options;
  options.listen = "127.0.0.1:7070";
  std::string state = "/var/lib/motley/coordinator";
  std::string blobs;
  std::string profiles;
  std::string address_file;
  app.add_option("--listen", options.listen, "to serve on; port 0: any free one")
      ->check(host_and_port())
      ->capture_default_str();
  app.add_option("--advertise", options.advertise, "host by which nodes reach it; default: that of --listen");
  app.add_option("--state", state, "folder for nodes, jobs, models")->capture_default_str();
  app.add_option("--blobs", blobs, "folder for models and checkpoints; default: in --state");
  add_blob_limit(app, options.blob_limit);
  app.add_option("--profiles", profiles, "file of measured costs; default: in --state");
  app.add_option("--heartbeat", options.heartbeat.value, "seconds between an agent's signs of life")
      ->check(above_zero())
      ->capture_default_str();
  app.add_option("--address-file", address_file, "file to write the address to, once it serves");
  if (const auto end = parse_options(app, argc, argv)) return *end;

  options.state = state;
  options.blobs = blobs;
  options.profiles = profiles;
  const SystemClock clock;
  const auto launcher = make_grpc_launcher();
  Coordinator coordinator(options, clock, *launcher);
  spdlog::info("listening on {}", coordinator.address());
  if (!address_file.empty()) write_file_atomically(address_file, coordinator.address());
  wait_for_signal();
  spdlog::info("ending");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return motley::guarded_main("motley-coordinator", [&] { return run(argc, argv); });
}
