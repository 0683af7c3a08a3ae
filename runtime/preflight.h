#pragma once

// Whether the network between the ranks of a job works at all, found before the job hangs on it.

#include <vector>

#include "runtime/communicator.h"

namespace motley {

// Exchanges a message with every rank that shares one of `groups` with this one, then sums a number over each group.
// All members of each group call this and name the groups that they share in the same order. Throws Error(kUnavailable)
// that names the pairs that fail, or else the group; the communicator is then aborted with that reason. `scratch` is 4
// * (size + 1) bytes where messages live (the GPU's memory for NCCL); what it holds does not matter.
void preflight(Communicator& communicator, const std::vector<RankGroup>& groups, void* scratch, Seconds timeout);

}  // namespace motley
