#pragma once

// Timelines as Chrome/Perfetto trace JSON (docs/timeline.md): open it at https://ui.perfetto.dev or chrome://tracing.

#include <string>
#include <vector>

#include "simulator/simulator.h"

namespace motley {

// One run of a deployment: a prediction or a measurement.
struct Timeline {
  std::string label;                 // "predicted", "measured"
  std::vector<Event> events;         // SimulationResult::events, or events_of() a measured timeline
  std::vector<MemorySample> memory;  // may be empty
};

// All timelines side by side in one file: a process per timeline and device, the timelines one after the other; in it a
// thread per stream, an arrow from each send to its receive, and a counter for memory. Throws Error(kInvalidInput) when
// an event is of an instruction that `deployment` lacks. The same arguments give the same bytes.
std::string trace_json(const Graph& graph, const Cluster& cluster, const Deployment& deployment,
                       const std::vector<Timeline>& timelines);

}  // namespace motley
