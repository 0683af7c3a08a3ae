#pragma once

// How the time of work on a device is told.
//
// - A CPU device with one thread: the thread's CPU time, times how long the process waits for a second of CPU. A quota
//   (cgroup) stops a process for tens of milliseconds at a time, so the wall time of one short op says nothing; its CPU
//   time does, and the quota is a factor common to all ops, found over a window much longer than its period.
// - A CPU device with several threads: wall time.
// - An accelerator: events on the compute stream.

#include <memory>

#include "base/units.h"
#include "runtime/executor.h"

namespace motley {

class Stopwatch {
 public:
  // For the thread that runs `executor`, which must outlive the stopwatch. `threads` as in ExecutorOptions.
  static std::unique_ptr<Stopwatch> make(Executor& executor, int threads);
  virtual ~Stopwatch() = default;

  virtual void start() = 0;
  virtual Seconds stop() = 0;  // since start(); waits for the device. To be multiplied by slowdown()

  // Wall seconds per second told by stop(): 1 but for single-threaded CPU devices, 4 where a quota grants a quarter of
  // a core. Found by computing for about `window` of wall time; other load on the core counts as well.
  virtual double slowdown(Seconds window) = 0;
};

}  // namespace motley
