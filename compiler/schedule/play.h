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
  std::vector<std::vector<Span>> steps;  // as in Schedule::ranks; where some wait for ever, those that ran
  Seconds length;                        // until the last step has ended
  bool ends = true;                      // false: some ranks wait for each other
};

// A backward pass takes both gradients' time; updates and moves take none. What a stage makes reaches the next ones
// PipelineStage::transfer later, unless they are on the same rank; gradients likewise.
Played play(const Schedule& schedule, const Pipeline& pipeline);

// Most at once.
struct Peaks {
  std::vector<std::int32_t> kept;      // by rank: passes between their forward and their (input) gradient; with those
                                       // that others have moved here
  std::vector<Bytes> kept_bytes;       // the same in bytes of PipelineStage::kept; until the weight gradient has ended
  std::vector<std::int32_t> versions;  // by stage: of its weights, the newest and what micro-batches under way took
};
Peaks peaks(const Schedule& schedule, const Pipeline& pipeline, const Played& played);

// Throws Error(kInternal) naming the step unless every stage does every pass exactly once for each micro-batch, a
// micro-batch's passes at a stage stand on one rank, the forward pass first, what is moved away is back before it is
// needed, versions exist and all gradients are in an update where there are any, and no ranks wait for each other.
void check(const Schedule& schedule, const Pipeline& pipeline);

}  // namespace motley
