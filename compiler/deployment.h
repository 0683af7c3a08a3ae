#pragma once

// A deployment: one program per device. The simulator runs it on a model of the cluster, the workers run it on the
// cluster. A program is a list of instructions over values. Each instruction runs on one stream of its device; a stream
// runs its instructions in program order, and an instruction starts when its stream is free and its inputs are there.
// Matching sends and receives, and members of a collective, wait for each other as their kind says.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "proto/cluster.h"

namespace motley {

using ValueId = std::int32_t;       // index into Program::values
using CollectiveId = std::int32_t;  // index into Deployment::collectives

enum class InstructionKind : std::uint8_t {  // numbers reach disk
  kCompute = 0,  // op on `batch` samples; inputs and outputs stand as in Op, kNone where there is none (a gradient that
                 // nobody on this device made). A kUpdate has one output: its parameter as updated, an alias of it
  kSlice = 1,    // samples [begin, end) of the input's own range, as a value of its own
  kConcat = 2,   // inputs, in order of samples, joined along the batch dimension
  kSend = 3,     // input to `peer`; ends when the data has left (the buffer may be freed)
  kReceive = 4,  // output from `peer`; matched with the send by `tag`. Into the storage of what the output aliases, if
                 // it does: new weights into their parameter
  kAllReduce =
      5,       // inputs (each scaled by `scale`) summed over the collective's members, in place: outputs share storage
  kSum = 6,    // elementwise sum of the inputs: parts of one gradient that met on this device. Stands for the graph's
               // kGradientSum ops too, which have as many parts on a device as their consumers left there. Into the
               // first input, if the output aliases it
  kScale = 7,  // input times `scale`. Into the storage of what the output aliases, if it does: state
  kFill = 8,   // a value filled with `scale`: the loss's seed gradient, zeros for a missing part
};
enum class Stream : std::uint8_t { kCompute = 0, kSend = 1, kReceive = 2, kCollective = 3 };
Stream stream_of(InstructionKind kind);

// A device has so many receives posted at once, in program order, so that the next message need not wait for it. They
// end in program order.
inline constexpr std::int32_t kPostedReceives = 3;

// A tensor, or the part of it for samples [begin, end), on one device.
struct Value {
  TensorId tensor = kNone;  // its name, dtype, shape and role
  std::int64_t begin = 0;   // in samples; for values that are not kSplit begin = 0, end = the replica's samples
  std::int64_t end = 0;
  Bytes bytes;
  ValueId alias_of = kNone;  // shares the storage of that value (views, in-place results): counted once
  bool persistent = false;   // lives across iterations: parameters, buffers, optimizer states, constants
};

struct Instruction {
  InstructionKind kind = InstructionKind::kCompute;
  OpId op = kNone;         // kCompute; for transfers, the op that needs the data (for people)
  std::int64_t batch = 0;  // kCompute: samples
  // kCompute: a backward op takes what its forward op kept for the same one; but those of its inputs that are other
  // values than the forward op had (made again, or elsewhere meanwhile), as they are here.
  std::int32_t micro_batch = 0;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<ValueId> releases;  // not used by any instruction after this one in the program; never persistent ones.
                                  // Instructions before it on other streams may still run: a storage is free when
                                  // these are done and all values that share it are released
  DeviceIndex peer = kNone;       // kSend, kReceive
  std::int32_t tag = 0;           // kSend, kReceive: unique per pair of devices in the deployment
  CollectiveId collective = kNone;
  double scale = 1.0;
};

struct LossPart {
  ValueId value = kNone;
  double weight = 1.0;
};

struct Program {
  DeviceIndex device = 0;
  // Devices that run the same program in the same time, and have none of their own here (Folding::kTwins): for
  // simulation alone. Their samples are others.
  std::vector<DeviceIndex> twins;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
  std::vector<ValueId> inputs;   // values of Graph::inputs that this device loads, with their sample ranges
  std::vector<LossPart> losses;  // whole loss = sum over devices and parts of weight * value; never released

  bool is_loss(ValueId value) const {
    return std::ranges::any_of(losses, [&](const LossPart& part) { return part.value == value; });
  }
};

struct Collective {
  std::vector<DeviceIndex> members;  // ascending
  Bytes bytes;                       // per member
};

struct Deployment {
  std::int64_t batch = 0;
  std::vector<Program> programs;  // ascending by device; devices without work have none
  std::vector<Collective> collectives;
  std::string strategy_name;
  std::string graph_fingerprint;
};

// Throws Error(kInternal) naming the instruction unless: every value is made once before it is used and released once
// (but for persistent ones and the loss), and not used once its storage was written over; sends and receives match in
// tag and bytes; each collective is entered exactly once by each member and by nobody else, and in the same order on
// members that share several; no cycle of waits is left (so the deployment cannot deadlock).
void check(const Deployment& deployment);

// They live as long as the deployment.
inline std::map<DeviceIndex, const Program*> programs_by_device(const Deployment& deployment) {
  std::map<DeviceIndex, const Program*> programs;
  for (const Program& program : deployment.programs) programs[program.device] = &program;
  return programs;
}

}  // namespace motley
