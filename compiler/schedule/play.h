#pragma once

// What a schedule does, by the clock: ranks work through their steps in order, each as soon as what it needs is there.

#include <cstdint>
#include <vector>

#include "compiler/schedule/schedule.h"

namespace motley {

struct Played {
  struct Span {
    Seconds start, end;
  };
  std::vector<std::vector<Span>> steps;  // as in Schedule::ranks
  Seconds length;                        // until the last step has ended
  std::vector<std::int32_t> kept;  // by rank: most passes at once between their forward and their (input) gradient
  std::vector<Bytes> kept_bytes;   // the same in bytes of PipelineStage::kept; until the weight gradient has ended
  bool ends = true;                // false: some ranks wait for each other; the steps that did not run have end 0
};

// A backward pass takes both gradients' time. What a stage makes reaches the next ones PipelineStage::transfer later,
// unless they are on the same rank; gradients likewise.
Played play(const Schedule& schedule, const Pipeline& pipeline);

// Throws Error(kInternal) naming the step unless every stage does every pass exactly once for each micro-batch, a
// micro-batch's passes at a stage stand on one rank, the forward pass first, and no ranks wait for each other.
void check(const Schedule& schedule, const Pipeline& pipeline);

}  // namespace motley
