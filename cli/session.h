#pragma once

// A coordinator to work with: the one that --coordinator names, or one that is started in place with its agents and
// ends with this object. Ctrl-C cancels the job at hand.

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/state_folder.h"
#include "coordinator/client.h"
#include "coordinator/local_cluster.h"
#include "graph/graph.h"
#include "profiler/store.h"
#include "proto/cluster.h"

namespace motley {

struct SessionOptions {
  std::string coordinator;          // HOST:PORT; empty: in place
  std::vector<std::string> agents;  // of one in place; empty: one with this machine's devices
  std::string profiles;             // the profile store of one in place
  bool verbose = false;
};
// --coordinator, --agent, --profiles, --verbose.
void add_session_options(CLI::App& command, SessionOptions& options);

class Session {
 public:
  explicit Session(const SessionOptions& options);

  const CoordinatorClient& client() const { return *client_; }
  bool interrupted() const { return interrupt_.token().stop_requested(); }

  // Submits a job and hands its events to `on_event` until it ends. Throws Error with the job's own message when it
  // failed or was cancelled; of one for which nothing fits, tells it and ends the command (end_unless). The job ends
  // with this process, however that ends.
  void run(const proto::JobSpec& spec, const std::function<void(const proto::JobEvent&)>& on_event);

 private:
  Interrupt interrupt_;
  std::unique_ptr<StateFolder> state_;  // of a cluster in place
  std::unique_ptr<LocalCluster> local_;
  std::unique_ptr<CoordinatorClient> client_;
};

// A job on a model: the file is uploaded, its training graph and the batch filled in.
proto::JobSpec job_on(const Session& session, const std::string& model, const Graph& graph, std::int64_t batch);

// Of an event that has one.
Cluster cluster_of(const proto::JobEvent& event);

// The cluster as the coordinator's agents found and measured it, and what the job's ops cost on it.
struct Profiled {
  Cluster cluster;
  proto::CostsFound costs;
};
// Runs the job as one of profiling. What is known is not measured again.
Profiled profile(Session& session, proto::JobSpec spec);
// Puts what was found into a store of this machine.
void add_to(ProfileStore& store, const proto::CostsFound& costs);

// One line on standard error that the next one overwrites; nothing when that is no terminal.
void show_progress(const std::string& line);
void clear_progress();

}  // namespace motley
