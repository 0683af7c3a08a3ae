#pragma once

// How the coordinator reaches the nodes' agents. Tests have one without processes.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "proto/agent_service.pb.h"

namespace motley {

// The agent of a node died, or its node is down.
class AgentLost : public Error {
 public:
  explicit AgentLost(const proto::NodeDescription& node)
      : Error(ErrorKind::kUnavailable, "the agent of node " + node.name() + " at " + node.address() +
                                           " no longer answers: it died, or its node is down") {}
};

// A worker that was started. Destroying it ends the worker and waits until no more events come.
class LaunchedWorker {
 public:
  virtual ~LaunchedWorker() = default;
  virtual void stop() = 0;  // asks it to end; `ended` comes all the same
};

class Launcher {
 public:
  virtual ~Launcher() = default;

  // Starts a task on one of the node's devices. `on_event` is called from another thread; the last event is `ended`,
  // also when the node could not be reached or died.
  virtual std::unique_ptr<LaunchedWorker> start(const proto::NodeDescription& node, const proto::RunRequest& request,
                                                std::function<void(proto::WorkerEvent)> on_event) = 0;

  // Reads a file that a worker saved, and removes it there. Throws AgentLost, or Error(kUnavailable) naming the node.
  virtual void take_file(const proto::NodeDescription& node, const std::string& path,
                         const std::function<void(std::string_view)>& on_data) = 0;
};

std::unique_ptr<Launcher> make_grpc_launcher();

}  // namespace motley
