#pragma once

// A worker as its agent sees it: a process that is given a task and tells events.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "agent/process.h"
#include "proto/worker.pb.h"

namespace motley {

// Thread-safe. Destroying it ends the process.
class WorkerProcess {
 public:
  // `program` is motley-worker's path. Throws Error(kUnavailable) when it cannot be started. `spawner` outlives it.
  WorkerProcess(Spawner& spawner, const std::string& program, const proto::WorkerTask& task);
  ~WorkerProcess();

  // The next event, or nothing when none comes within `timeout`. The last one is `ended`, with the worker's own last
  // words, or the last lines that it printed when it was killed or crashed; after it there is never another.
  std::optional<proto::WorkerEvent> next(Seconds timeout);
  void stop();  // SIGTERM, then SIGKILL; `ended` still comes

 private:
  void read_events();
  void read_output();
  void finish();
  void push(proto::WorkerEvent event);

  std::string device_;
  std::unique_ptr<Child> child_;
  std::optional<proto::Ended> own_end_;  // read_events' until it has ended
  std::deque<std::string> last_lines_;   // read_output's until it has ended
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<proto::WorkerEvent> events_;
  std::thread event_reader_;
  std::thread output_reader_;
  std::thread finisher_;
};

}  // namespace motley
