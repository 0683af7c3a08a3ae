#pragma once

// The groups of ranks that a deployment's collectives run on.

#include <vector>

#include "compiler/deployment.h"
#include "runtime/communicator.h"

namespace motley {

// Makes one group per distinct set of members that `device` belongs to. Returns the group of every collective of the
// device, by CollectiveId; kNone for those of others. `rank_of_device` by DeviceIndex. Called by all ranks.
std::vector<RankGroup> make_groups(const Deployment& deployment, DeviceIndex device,
                                   const std::vector<int>& rank_of_device, Communicator& communicator, Seconds timeout);

}  // namespace motley
