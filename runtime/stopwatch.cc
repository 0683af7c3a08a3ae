#include "runtime/stopwatch.h"

#include <time.h>

#include <chrono>

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
  explicit ClockStopwatch(clockid_t clock) : clock_(clock) {}
  void start() override { started_ = seconds_of(clock_); }
  Seconds stop() override { return Seconds(seconds_of(clock_) - started_); }
  double slowdown(Seconds window) override {
    if (clock_ == CLOCK_MONOTONIC) return 1.0;
    const double wall = seconds_of(CLOCK_MONOTONIC);
    const double own = seconds_of(clock_);
    double waited = 0;
    while (waited < window.value) waited = seconds_of(CLOCK_MONOTONIC) - wall;
    return waited / (seconds_of(clock_) - own);
  }

 private:
  clockid_t clock_;
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
  double slowdown(Seconds) override { return 1.0; }

 private:
  Executor& executor_;
  EventHandle started_;
};

}  // namespace

std::unique_ptr<Stopwatch> Stopwatch::make(Executor& executor, int threads) {
  if (executor.device() != "cpu") return std::make_unique<EventStopwatch>(executor);
  return std::make_unique<ClockStopwatch>(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
}

}  // namespace motley
