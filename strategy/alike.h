#pragma once

// Which devices are one choice.

#include <vector>

#include "profiler/cost_model.h"
#include "proto/cluster.h"

namespace motley {

// By node: the first switch that it is linked to; where there is none, the node itself.
std::vector<VertexIndex> places_of_nodes(const Cluster& cluster);

// How near to each other devices must be to count as one choice.
enum class Near { kAnywhere, kPlace, kNode };  // kPlace: as in places_of_nodes()

// Devices of one cost class and as much usable memory. Each once; sets and devices ascending. Thread-safe.
std::vector<std::vector<DeviceIndex>> alike_devices(const Cluster& cluster, const CostModel& costs,
                                                    Near near = Near::kPlace);

}  // namespace motley
