#include "coordinator/job_log.h"

#include <chrono>

namespace motley {

void JobLog::add(proto::JobEvent event) {
  {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
  }
  changed_.notify_all();
}

std::optional<proto::JobEvent> JobLog::get(std::size_t place, Seconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(timeout.value), [&] { return events_.size() > place; });
  if (events_.size() <= place) return std::nullopt;
  return events_[place];
}

}  // namespace motley
