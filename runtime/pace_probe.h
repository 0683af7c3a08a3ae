#pragma once

// How fast a device is at the moment. A processor changes its clock, and on a shared machine its neighbours take caches
// and arithmetic units, so that the same op takes up to half as long again for some seconds, and then does not. Two
// fixed pieces of work, timed in the same seconds as others, tell how much of a time is due to that.

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "runtime/executor.h"
#include "runtime/stopwatch.h"

namespace motley {

struct Pace {
  Seconds product;  // of two 128 x 128 matrices of floats: bound by arithmetic
  Seconds pass;     // softmax over the rows of one of 256 x 256: bound by caches, as what is no product is
};

// Not thread-safe; of the thread that made it. Holds 1 MiB of the device.
class PaceProbe {
 public:
  // `device` and `threads` as in Executor::open.
  PaceProbe(const std::string& device, int threads);

  Pace measure();  // medians of a few runs: under a millisecond of a core of 2020

 private:
  Seconds time(OpId op, const std::vector<TensorHandle>& inputs);

  Graph graph_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Stopwatch> stopwatch_;
  TensorHandle factor_;
  TensorHandle rows_;
};

}  // namespace motley
