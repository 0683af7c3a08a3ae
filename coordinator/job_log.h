#pragma once

// What a job has told, for those who watch it. Thread-safe.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "base/units.h"
#include "proto/coordinator_service.pb.h"

namespace motley {

class JobLog {
 public:
  void add(proto::JobEvent event);

  // The event of that place, waiting for it at most `timeout`; nothing when it has not come.
  std::optional<proto::JobEvent> get(std::size_t place, Seconds timeout) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<proto::JobEvent> events_;
};

}  // namespace motley
