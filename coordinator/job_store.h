#pragma once

// The coordinator's memory across restarts: nodes and jobs in SQLite (docs/coordinator-store.md). Thread-safe.

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "proto/coordinator_service.pb.h"

struct sqlite3;

namespace motley {

class JobStore {
 public:
  // Opens or makes the file; ":memory:" keeps nothing. Jobs that were under way when the coordinator stopped have
  // failed. Throws Error(kUnavailable) naming the file when it cannot be opened, Error(kUnsupported) when a newer
  // motley made it.
  explicit JobStore(const std::filesystem::path& path);
  ~JobStore();
  JobStore(const JobStore&) = delete;

  std::int64_t add(const proto::JobSpec& spec, double submitted);  // queued; returns its number
  void set_state(std::int64_t job, proto::JobState state, const std::string& message);
  void set_iteration(std::int64_t job, std::int64_t iteration);
  std::vector<proto::JobStatus> jobs() const;  // by number

  void remember(const proto::NodeDescription& node, double heard);
  std::vector<proto::NodeDescription> nodes() const;  // by name, all that ever registered

 private:
  class Statement;
  void execute(const std::string& sql);

  std::string path_;
  mutable std::mutex mutex_;
  sqlite3* database_ = nullptr;
};

}  // namespace motley
