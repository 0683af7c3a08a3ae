#pragma once

// A deployment becomes a timeline: discrete events over the programs. Compute instructions take their device's cost; a
// transfer is a flow over its route's channels, and flows share channels max-min fairly; a collective is the flows of
// its algorithm's steps. Memory follows the values' lifetimes. Deterministic to the byte; no global state.

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/deployment.h"
#include "profiler/cost_model.h"
#include "simulator/memory_use.h"

namespace motley {

struct Event {  // one instruction as it ran
  DeviceIndex device = 0;
  std::int32_t instruction = 0;  // index into its program
  Seconds start;
  Seconds end;
};

struct LiveValue {
  std::string tensor;
  Bytes bytes;
};

struct DeviceMemory {
  DeviceIndex device = 0;
  Bytes peak;       // what must fit: the device's context and what the allocator holds
  Bytes allocated;  // peak of the allocated bytes
  Bytes reserved;   // peak of what the allocator holds
  Bytes capacity;
  Bytes headroom;                       // ... of which so much shall stay free
  MemoryByUse uses;                     // of `peak`, to which they add up
  std::int32_t peak_instruction = 0;    // where the most bytes are live
  std::vector<LiveValue> live_at_peak;  // the largest of these, at most 10
  Bytes lacking() const { return std::max(Bytes(0), peak - (capacity - headroom)); }
  bool fits() const { return lacking() == Bytes(0); }
};

struct MemorySample {  // a device's memory from `time` on
  DeviceIndex device = 0;
  Seconds time;
  Bytes bytes;
};

struct SimulationOptions {
  bool keep_events = false;  // fill SimulationResult::events and memory_samples
  // Run every device's requests through a model of its allocator, so that DeviceMemory is exact. False, for a search:
  // only where the bytes alone fill over half of the device; on others `reserved` is a lower bound, the bytes alone.
  bool exact_memory = true;
};

struct SimulationResult {
  Seconds iteration;  // from the first instruction's start to the last one's end
  bool feasible = true;
  // When infeasible: "big/0 needs 18.2 GiB of 16.0 GiB less 1.6 GiB of headroom (3.8 GiB over): 9.1 GiB ..."
  std::vector<std::string> reasons;
  std::vector<DeviceMemory> memory;          // one per device with a program or a twin, ascending
  std::vector<Seconds> busy;                 // compute time, likewise
  std::vector<Bytes> channel_bytes;          // carried by each channel
  double estimated_share = 0;                // of the compute time on the programs, how much rests on estimates
  std::vector<Event> events;                 // by start, then device, then instruction
  std::vector<MemorySample> memory_samples;  // by time
};

// What instructions cost and wait for is said in simulator/engine.h, how flows share channels in simulator/flow.h. A
// forward op's kept bytes live until its last backward op on the device has ended, its workspace while it runs.
// Throws Error(kInternal) when the deployment is not one that check() accepts. Thread-safe.
SimulationResult simulate(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                          const Deployment& deployment, const SimulationOptions& options = {});

}  // namespace motley
