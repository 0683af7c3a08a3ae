#pragma once

// Time as the coordinator sees it; tests have a clock that they move by hand.

#include <chrono>

#include "base/units.h"

namespace motley {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Seconds now() const = 0;  // since the UNIX epoch
};

class SystemClock : public Clock {
 public:
  Seconds now() const override {
    return Seconds{std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
  }
};

}  // namespace motley
