#pragma once

// What the time of an iteration is spent on: its critical path (simulator/critical_path.h), by resource. Compute and
// memory passes count for the kind of their device. Of a message or a collective, what latency and overhead take counts
// as such, and the rest for a link: of a message the one on its way that has been busiest in the iteration, of a
// collective the one that takes longest for what the collective sends over it. Links that are alike (what they join,
// bandwidth, latency) are one resource, since one of them alone could not be the way out.

#include <string>
#include <vector>

#include "compiler/deployment.h"
#include "profiler/cost_model.h"
#include "simulator/simulator.h"

namespace motley {

struct Resource {
  enum class What { kCompute, kLinks, kMessages, kMemory };
  What what = What::kCompute;
  std::string name;                   // "compute of V100-16GB", "link uplink-a", "link a0-tor and 3 like it",
                                      // "latency and overhead of messages", "memory of T4"
  std::vector<std::int32_t> members;  // devices or links; none of kMessages
};
struct Usage {
  Resource resource;
  Seconds time;
};

// The longest first; they add up to the iteration. `result` has events. Thread-safe.
std::vector<Usage> critical_usage(const Cluster& cluster, const CostModel& costs, const Deployment& deployment,
                                  const SimulationResult& result);

// Of the kinds whose devices lack memory, one resource each.
std::vector<Resource> lacking_memory(const Cluster& cluster, const SimulationResult& result);

}  // namespace motley
