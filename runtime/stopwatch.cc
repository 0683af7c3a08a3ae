#include "runtime/stopwatch.h"

#include <time.h>

#include <chrono>

#include "base/control_group.h"
#include "base/error.h"

namespace motley {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  MOTLEY_CHECK(clock_gettime(clock, &now) == 0, "clock_gettime");
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class ClockStopwatch : public Stopwatch {
 public:
  ClockStopwatch(clockid_t clock, double share) : clock_(clock), share_(share) {}
  void start() override { started_ = seconds_of(clock_); }
  Seconds stop() override { return Seconds((seconds_of(clock_) - started_) / share_); }

 private:
  clockid_t clock_;
  double share_;  // of a second of the device that the clock counts
  double started_ = 0;
};

class EventStopwatch : public Stopwatch {
 public:
  explicit EventStopwatch(Executor& executor) : executor_(executor) {}
  void start() override { started_ = executor_.record(); }
  Seconds stop() override {
    const EventHandle stopped = executor_.record();
    executor_.synchronize(stopped);
    return executor_.elapsed(started_, stopped);
  }

 private:
  Executor& executor_;
  EventHandle started_;
};

}  // namespace

std::unique_ptr<Stopwatch> Stopwatch::make(Executor& executor, int threads) {
  if (executor.device() != "cpu") return std::make_unique<EventStopwatch>(executor);
  if (threads > 1) return std::make_unique<ClockStopwatch>(CLOCK_MONOTONIC, 1.0);
  return std::make_unique<ClockStopwatch>(CLOCK_THREAD_CPUTIME_ID, granted_share(1));
}

}  // namespace motley
