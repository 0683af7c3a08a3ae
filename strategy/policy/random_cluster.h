#pragma once

// Clusters that nobody has, for a policy to learn from.

#include <cstdint>

#include "proto/cluster.h"

namespace motley {

// 2 to 16 devices of one to four of the catalogue's kinds, some slowed, in up to eight nodes behind one switch or in
// two zones, with links of 1 to 200 Gbit/s. The same seed gives the same cluster. Thread-safe.
Cluster random_cluster(std::uint64_t seed);

}  // namespace motley
