#pragma once

// Workers that do something together, and what they tell, in one place. One thread uses it.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "coordinator/launcher.h"
#include "coordinator/node_registry.h"

namespace motley {

class WorkerGroup {
 public:
  // `stop`: the job was cancelled. Nodes are watched in `nodes`, which is told of those that are lost.
  WorkerGroup(Launcher& launcher, NodeRegistry& nodes, std::stop_token stop);
  ~WorkerGroup();  // ends all workers

  void start(const proto::NodeDescription& node, const proto::RunRequest& request);

  // Calls `on_event` for each event but `ended`, on the caller's thread, until all workers have ended well, or `until`
  // says true after an event. When a worker fails, its node dies or the job is cancelled, all are ended and
  // Error(kUnavailable) is thrown with the last words of the one that failed first, naming device and node; a worker
  // that only lost a message is not believed before its peers had a moment to say more.
  void run(
      const std::function<void(const proto::WorkerEvent&)>& on_event,
      const std::function<bool()>& until = [] { return false; });

 private:
  struct Member {
    proto::NodeDescription node;
    std::string device;
    std::unique_ptr<LaunchedWorker> worker;
    bool ended = false;
  };
  struct Failure {
    std::string message;
    bool certain = false;
  };

  std::vector<proto::WorkerEvent> wait();
  void note_end(const proto::WorkerEvent& event, std::vector<Failure>& failures);
  [[noreturn]] void fail(std::vector<Failure> failures);
  bool all_ended() const;

  Launcher& launcher_;
  NodeRegistry& nodes_;
  std::stop_token stop_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<proto::WorkerEvent> events_;
  std::map<std::string, Member> members_;  // by device; after events_, which they fill until they are gone
};

// How a job ends that somebody cancelled.
class Cancelled : public Error {
 public:
  Cancelled() : Error(ErrorKind::kUnavailable, "the job was cancelled") {}
};

}  // namespace motley
