#include "coordinator/job_log.h"

#include <chrono>
#include <iterator>

namespace motley {
namespace {

bool comes_often(const proto::JobEvent& event) {
  return event.has_worker() || event.has_metrics() || event.has_progress() || event.has_timeline();
}

}  // namespace

void JobLog::add(proto::JobEvent event) {
  {
    const std::scoped_lock lock(mutex_);
    const std::size_t bytes = event.ByteSizeLong();
    bytes_ += bytes;
    events_.emplace(places_++, Kept{std::move(event), bytes});
    const auto newest = std::prev(events_.end());
    for (auto old = events_.lower_bound(oldest_); bytes_ > limit_ && old != newest;) {
      oldest_ = old->first + 1;
      if (!comes_often(old->second.event)) {
        ++old;
        continue;
      }
      bytes_ -= old->second.bytes;
      old = events_.erase(old);
    }
  }
  changed_.notify_all();
}

std::optional<proto::JobEvent> JobLog::next(std::size_t& place, Seconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(timeout.value), [&] { return places_ > place; });
  const auto found = events_.lower_bound(place);
  if (found == events_.end()) return std::nullopt;
  place = found->first + 1;
  return found->second.event;
}

std::size_t JobLog::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace motley
