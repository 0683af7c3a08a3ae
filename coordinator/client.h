#pragma once

// The coordinator as a program sees it from outside: what the `motley` command speaks to. Functions throw Error with
// the coordinator's message, or Error(kUnavailable) naming its address when it does not answer.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/units.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace motley {

class CoordinatorClient {
 public:
  explicit CoordinatorClient(const std::string& address);

  // Waits until the coordinator answers and `nodes` nodes are alive. Throws when they are not within `timeout`.
  void wait_for_nodes(std::size_t nodes, Seconds timeout) const;

  // Sends a file unless the coordinator has it; returns its hash, for JobSpec::model_hash and checkpoint_hash.
  std::string upload(const std::filesystem::path& file) const;

  std::int64_t submit(const proto::JobSpec& spec) const;
  // Calls `on_event` for all of the job's events from its first one, until its end, which is returned. When `on_event`
  // returns false, stops watching at once and returns nothing ended: a JobEnd in STATE_QUEUED. `ends_with_watcher`: a
  // job whose watcher leaves, or dies, is cancelled.
  proto::JobEnd watch(std::int64_t job, const std::function<bool(const proto::JobEvent&)>& on_event,
                      bool ends_with_watcher = false) const;
  void cancel(std::int64_t job) const;
  proto::StatusResponse status() const;

 private:
  std::string peer_;
  std::unique_ptr<proto::Coordinator::Stub> stub_;
};

}  // namespace motley
