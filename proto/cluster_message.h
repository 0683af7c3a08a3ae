#pragma once

// The cluster as a message and back.

#include "proto/cluster.h"
#include "proto/cluster.pb.h"

namespace motley {

proto::Cluster to_message(const Cluster& cluster);

// Finished: checked, with routes. Throws what Cluster::finish throws.
Cluster from_message(const proto::Cluster& message);

}  // namespace motley
