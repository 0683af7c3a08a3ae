#pragma once

// One direction of an emulated network port: a serial resource that is booked for stretches of time. Thread-safe.

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/units.h"

namespace motley {

class EmulatedPort {
 public:
  struct Booking {
    std::int64_t id = 0;
    Seconds start;  // of the first stretch
    Seconds end;    // of the last
  };

  // Books `duration` from `earliest` on, in the stretches that are still free: what was booked before is not moved, and
  // the port is never idle while the booking waits. E.g. [10, 20) is taken and 8 are booked from 5 on: [5, 10), [20,
  // 23).
  Booking book(Seconds earliest, Seconds duration);
  void release(const Booking& booking);

 private:
  struct Stretch {
    Seconds start;
    Seconds end;
    std::int64_t id;
  };

  std::mutex mutex_;
  std::vector<Stretch> taken_;  // by start, disjoint; those that ended long ago are forgotten
  std::int64_t next_id_ = 0;
};

}  // namespace motley
