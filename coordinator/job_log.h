#pragma once

// What a job has told, for those who watch it. Thread-safe.
//
// Of a long job it keeps the recent past: when the events exceed `limit` bytes, the oldest that come in great number
// (progress, metrics, timelines, what workers tell) are dropped. States, the cluster, the plan, costs, saved files and
// the end stay.

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "base/units.h"
#include "proto/coordinator_service.pb.h"

namespace motley {

class JobLog {
 public:
  explicit JobLog(std::size_t limit = std::size_t{32} << 20) : limit_(limit) {}
  void add(proto::JobEvent event);

  // The first event that is kept from `place` on, waiting for it at most `timeout`; nothing when none has come. Moves
  // `place` behind it.
  std::optional<proto::JobEvent> next(std::size_t& place, Seconds timeout) const;
  std::size_t bytes() const;

 private:
  struct Kept {
    proto::JobEvent event;
    std::size_t bytes;
  };

  const std::size_t limit_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::size_t, Kept> events_;  // by place
  std::size_t places_ = 0;              // given so far
  std::size_t oldest_ = 0;              // from which place on there are events to drop
  std::size_t bytes_ = 0;
};

}  // namespace motley
