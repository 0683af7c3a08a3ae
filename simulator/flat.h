#pragma once

// A deployment as flat arrays, with what each instruction costs, waits for and sets free: what the event loop walks.
// Instructions of all programs are numbered through, program by program. Needs the cluster, but not the deployment,
// while it is used.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "compiler/deployment.h"
#include "profiler/cost_model.h"
#include "simulator/flat_lists.h"

namespace motley {

struct Step {  // an instruction
  // Of compute and memory passes; of packing for an all-reduce; a message's overhead on this end.
  double seconds = 0;
  std::int32_t next = kNone;   // the one that follows on its stream
  std::int32_t other = kNone;  // send, receive: its transfer; all-reduce: its collective
  std::int32_t program = 0;
  Stream stream = Stream::kCompute;
  // How many it waits for: its predecessor on the stream (a receive is posted: the one kPostedReceives before it) and,
  // per other stream, the last that makes one of its inputs, unless the predecessor waits for that one too.
  std::uint8_t waits = 0;
  bool awaited = false;  // by steps of other streams
};

struct Transfer {
  std::span<const ChannelIndex> route;
  double bytes = 0;
  double latency = 0;  // seconds
  std::int32_t send = kNone;
  std::int32_t receive = kNone;
};

// A collective is phases, one after the other: first the latency passes, then its flows run at once.
struct FlatPhase {
  double latency = 0;  // seconds
  std::int32_t first_flow = 0;
  std::int32_t end_flow = 0;
};
struct FlatFlow {
  std::span<const ChannelIndex> route;
  double bytes = 0;
  double messages = 1;
  std::int32_t sender = 0;  // programs; kNone: of a device that another one's program stands for
  std::int32_t receiver = 0;
};
struct FlatCollective {
  std::int32_t first_phase = 0;
  std::int32_t end_phase = 0;
};

struct OpMemory {
  std::int64_t kept = 0;       // bytes, for the backward ops
  std::int64_t workspace = 0;  // bytes
};

struct FlatDeployment {
  // Throws Error(kInternal) when sends and receives do not match, or a collective is not entered once by each member.
  FlatDeployment(const Graph& graph, const Cluster& cluster, const CostModel& costs, const Deployment& deployment);

  std::int32_t count() const { return static_cast<std::int32_t>(steps.size()); }
  std::int32_t programs() const { return static_cast<std::int32_t>(devices.size()); }

  std::vector<DeviceIndex> devices;    // per program
  std::vector<MessageCosts> messages;  // per program
  std::vector<std::uint8_t> on_cpu;    // per program: its thread runs the instructions itself, and does not queue them
  bool messages_delay = false;         // whether messages make any compute later
  std::vector<std::int32_t> first;     // per program, and one past the last: its first instruction
  std::vector<Step> steps;
  FlatLists dependents;  // per instruction: those of other streams, and later receives, that wait for it

  std::deque<std::vector<ChannelIndex>> routes;  // one per pair of devices that talk; they keep their places
  std::vector<Transfer> transfers;
  std::vector<FlatCollective> collectives;
  std::vector<FlatPhase> phases;
  std::vector<FlatFlow> flows;
  FlatLists members;  // per collective: its instructions, by device

  std::vector<OpMemory> op_memory;  // per instruction; 0 for all but kCompute
  std::vector<double> busy;         // per program: seconds of its compute stream
  double op_seconds = 0;            // of all ops
  double estimated_op_seconds = 0;  // ... of those whose cost is an estimate
};

}  // namespace motley
