#include "cli/session.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "agent/option_checks.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/options.h"
#include "graph/serialize.h"
#include "profiler/profile_message.h"
#include "proto/cluster_message.h"

namespace motley {

void add_session_options(CLI::App& command, SessionOptions& options) {
  CLI::Option* coordinator =
      command.add_option("--coordinator", options.coordinator, "a coordinator; without it one is started in place");
  coordinator->check(host_and_port());
  command
      .add_option("--agent", options.agents,
                  "an agent to start in place, once for each: name=big,speed=0.5,bandwidth=200Mbps,latency=1ms,"
                  "memory=2GiB,devices=1,threads=1 (any of them)")
      ->excludes(coordinator);
  options.profiles = default_profile_store();
  command.add_option("--profiles", options.profiles, "the store of what was measured here")->capture_default_str();
  command.add_flag("--verbose", options.verbose, "show the daemons' logs");
}

Session::Session(const SessionOptions& options) {
  if (options.coordinator.empty()) {
    state_ = std::make_unique<StateFolder>();
    LocalClusterOptions local;
    local.state = state_->path();
    local.profiles = std::filesystem::absolute(options.profiles);
    make_output_folder(local.profiles.parent_path());
    local.verbose = options.verbose;
    for (std::size_t i = 0; i < options.agents.size(); ++i) {
      local.agents.push_back(parse_local_agent(options.agents[i], "node" + std::to_string(i)));
    }
    if (local.agents.empty()) local.agents.push_back(parse_local_agent("", "local"));
    local_ = std::make_unique<LocalCluster>(local);
  }
  client_ = std::make_unique<CoordinatorClient>(local_ ? local_->coordinator() : options.coordinator);
  client_->wait_for_nodes(1, Seconds(10));
}

void Session::run(const proto::JobSpec& spec, const std::function<void(const proto::JobEvent&)>& on_event) {
  const auto watch = [&] {
    const std::int64_t job = client_->submit(spec);
    const std::stop_callback cancel(interrupt_.token(), [&] {
      try {
        client_->cancel(job);
      } catch (const Error&) {
        // It does not answer: the watcher is about to tell.
      }
    });
    const auto tell = [&](const proto::JobEvent& event) {
      on_event(event);
      return true;
    };
    const proto::JobEnd end = client_->watch(job, tell, true);
    clear_progress();
    if (end.nothing_fits()) {
      std::fprintf(stderr, "motley: %s\n", end.message().c_str());
      end_unless(false);
    }
    if (end.state() != proto::STATE_DONE) throw Error(ErrorKind::kUnavailable, end.message());
  };
  try {
    watch();
  } catch (const Error& error) {
    const std::string lost = local_ && !interrupted() ? local_->lost() : "";
    if (lost.empty()) throw;
    throw Error(error.kind(), std::string(error.what()) + "\n" + lost);
  }
}

proto::JobSpec job_on(const Session& session, const std::string& model, const Graph& graph, std::int64_t batch) {
  proto::JobSpec spec;
  spec.set_model_hash(session.client().upload(model));
  spec.set_model_name(std::filesystem::path(model).filename());
  spec.set_graph(serialize(graph));
  spec.set_batch(batch);
  return spec;
}

Cluster cluster_of(const proto::JobEvent& event) {
  proto::Cluster message;
  if (!message.ParseFromString(event.cluster())) {
    throw Error(ErrorKind::kUnavailable, "the coordinator sent a cluster that cannot be read: is it another version?");
  }
  return from_message(message);
}

Profiled profile(Session& session, proto::JobSpec spec) {
  spec.set_kind(proto::JOB_PROFILE);
  Profiled found;
  session.run(spec, [&](const proto::JobEvent& event) {
    if (event.has_progress()) show_progress(event.progress().what());
    if (event.has_cluster()) found.cluster = cluster_of(event);
    if (event.has_costs()) found.costs = event.costs();
  });
  return found;
}

void add_to(ProfileStore& store, const proto::CostsFound& costs) {
  const auto& profiles = costs.profiles();  // the newest first, as a store gives them
  for (auto one = profiles.rbegin(); one != profiles.rend(); ++one) store.add(from_message(*one));
}

void show_progress(const std::string& line) {
  if (::isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%.120s", line.c_str());
}

void clear_progress() {
  if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
}

}  // namespace motley
