#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "runtime/emulation.h"

namespace motley {

// Time stands still but for sleepers, who take it along: a thread that sleeps until T makes it T at once.
class FakeClock : public EmulationClock {
 public:
  Seconds now() override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  void sleep_until(Seconds time) override {
    std::lock_guard lock(mutex_);
    now_ = std::max(now_, time);
  }
  void advance(Seconds time) {
    std::lock_guard lock(mutex_);
    now_ += time;
  }

 private:
  std::mutex mutex_;
  Seconds now_{1000.0};
};

}  // namespace motley
