#pragma once

#include <atomic>

#include "coordinator/clock.h"

namespace motley {

// Time that a test moves by hand.
class ManualClock : public Clock {
 public:
  Seconds now() const override { return Seconds{now_}; }
  void advance(Seconds time) { now_ = now_ + time.value; }

 private:
  std::atomic<double> now_{1000};
};

}  // namespace motley
