#include "runtime/emulated_port.h"

#include <algorithm>

namespace motley {
namespace {

// Bookings come in about the order of their times. One that comes this much late may use what was taken before.
constexpr Seconds kMemory{1.0};

}  // namespace

EmulatedPort::Booking EmulatedPort::book(Seconds earliest, Seconds duration) {
  std::lock_guard lock(mutex_);
  std::erase_if(taken_, [&](const Stretch& stretch) { return stretch.end + kMemory < earliest; });
  Booking booking{.id = next_id_++, .start = earliest, .end = earliest};
  if (duration.value <= 0) return booking;

  std::vector<Stretch> added;
  Seconds at = earliest;
  for (std::size_t next = 0; duration.value > 0; ++next) {
    const bool last = next == taken_.size();
    const Seconds room = last ? duration : std::min(duration, taken_[next].start - at);
    if (room.value > 0) {
      added.push_back({at, at + room, booking.id});
      duration -= room;
    }
    if (!last) at = std::max(at, taken_[next].end);
  }
  booking.start = added.front().start;
  booking.end = added.back().end;
  taken_.insert(taken_.end(), added.begin(), added.end());
  std::sort(taken_.begin(), taken_.end(), [](const Stretch& a, const Stretch& b) { return a.start < b.start; });
  return booking;
}

void EmulatedPort::release(const Booking& booking) {
  std::lock_guard lock(mutex_);
  std::erase_if(taken_, [&](const Stretch& stretch) { return stretch.id == booking.id; });
}

}  // namespace motley
