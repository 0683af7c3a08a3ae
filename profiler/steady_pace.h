#pragma once

// Keeps times comparable while a device's pace changes (runtime/pace_probe.h): what a piece of work takes at the
// device's usual pace is its time, over now()'s factor when it was timed, times usual()'s. Part of motley::measure.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/pace_probe.h"

namespace motley {

// How many times as long work takes as when the device was first looked at.
struct Slowdown {
  double product = 1;
  double pass = 1;
  bool operator==(const Slowdown&) const = default;
};

// Not thread-safe; of the thread that made it. Of "cpu" with one thread; the pace of other devices is not measured, and
// all factors are 1.
class SteadyPace {
 public:
  SteadyPace(const std::string& device, int threads);
  explicit SteadyPace(std::function<Pace()> probe);

  Slowdown now();          // a tenth of a second old at most
  Slowdown usual() const;  // medians of all that now() found

 private:
  std::function<Pace()> probe_;  // empty: not measured
  Pace first_;
  Slowdown now_;
  std::vector<double> product_;
  std::vector<double> pass_;
  std::chrono::steady_clock::time_point measured_;
};

}  // namespace motley
