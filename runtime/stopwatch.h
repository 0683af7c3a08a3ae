#pragma once

// How the time of work on a device is told.
//
// - A CPU device with one thread: the thread's CPU time, over the share of a core that a control group grants. A quota
//   stops a process for tens of milliseconds at a time, so the wall time of one short op says nothing; its CPU time
//   does, and the quota is a factor common to all ops.
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
  virtual Seconds stop() = 0;  // since start(); waits for the device
};

}  // namespace motley
