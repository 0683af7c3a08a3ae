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
  // How long the iteration took from the end of the one before it to its own; 0: as long as the events say. A device
  // can begin before the others have ended the iteration before, so this may be less than from the first to the last
  // event.
  Seconds iteration;
};

// All timelines side by side in one file: a process per timeline and device, the timelines one after the other; in it a
// thread per stream, an arrow from each send to its receive, and a counter for memory. The file also holds what was run
// on what, so that it can be read back. Throws Error(kInvalidInput) when an event is of an instruction that
// `deployment` lacks. The same arguments give the same bytes.
std::string trace_json(const Graph& graph, const Cluster& cluster, const Deployment& deployment,
                       const std::vector<Timeline>& timelines);

inline constexpr int kTraceFormatVersion = 1;

// What a trace file holds, but for the memory. Times are to the nanosecond.
struct TraceFile {
  Graph graph;
  Cluster cluster;
  Deployment deployment;
  std::vector<Timeline> timelines;
};
// Throws Error(kInvalidInput) naming `source` for what trace_json did not write, or wrote in another version;
// read_trace throws Error(kNotFound) when there is no such file.
TraceFile parse_trace(const std::string& json, const std::string& source);
TraceFile read_trace(const std::string& path);

// An instruction as traces call it: "h.0.mlp.dx", "send h.0 to small/0".
std::string instruction_name(const Graph& graph, const Cluster& cluster, const Program& program,
                             const Instruction& instruction);

}  // namespace motley
