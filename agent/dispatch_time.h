#pragma once

// What a worker's host thread needs for an instruction beside the instruction itself.

#include "runtime/executor.h"

namespace motley {

// Seconds per instruction, on a CPU device of one thread that a control group grants `share` of a core: of a program
// whose instructions write more memory than the caches next to a core hold, as a model's do, since half of it is
// waiting for what they pushed out.
Seconds dispatch_time(Executor& executor, double share);

}  // namespace motley
