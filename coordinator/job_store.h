#pragma once

// The coordinator's memory across restarts: nodes and jobs in SQLite (docs/coordinator-store.md). Thread-safe.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/coordinator_service.pb.h"

namespace motley {

namespace sqlite {
class Database;
}

class JobStore {
 public:
  // Opens or makes the file; ":memory:" keeps nothing. Jobs that were under way when the coordinator stopped have
  // failed; outputs() are the folders that they wrote to. Throws Error naming the file when it cannot be opened, is
  // something else, or another version made it (base/sqlite.h).
  explicit JobStore(const std::filesystem::path& path);
  ~JobStore();
  JobStore(const JobStore&) = delete;

  std::int64_t add(const proto::JobSpec& spec, double submitted);  // queued; returns its number
  void set_state(std::int64_t job, proto::JobState state, const std::string& message);
  void set_iteration(std::int64_t job, std::int64_t iteration);
  std::vector<proto::JobStatus> jobs() const;  // by number
  const std::vector<std::string>& outputs() const { return outputs_; }

  void remember(const proto::NodeDescription& node, double heard);
  std::vector<proto::NodeDescription> nodes() const;  // by name, all that ever registered

 private:
  std::unique_ptr<sqlite::Database> database_;
  std::vector<std::string> outputs_;
  mutable std::mutex mutex_;
};

}  // namespace motley
