#pragma once

// Where a prediction's error comes from: predicted and measured timeline of one deployment, laid side by side along the
// critical path (simulator/critical_path.h) of the one that took longer. What made that one long stands there step by
// step, each with the time that it took in the other; what the other's own critical path had beyond these steps is
// `elsewhere`. So both columns add up to their iteration, and the errors to the error of the iteration.
// docs/accuracy.md says how to read it.

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/deployment.h"
#include "graph/graph.h"
#include "simulator/trace.h"

namespace motley {

enum class PathKind : std::uint8_t {
  kForward,
  kInputGradient,
  kWeightGradient,
  kUpdate,
  kMemoryPass,  // slice, concatenate, sum, scale, fill
  kSend,        // until the data has left
  kReceive,     // the message: from when its send began
  kCollective,  // from when the last member had its inputs: packing included
  kDispatch,    // inputs were there and the stream free, but the instruction had not begun
  kBetween,     // the iteration beyond its critical path: loading inputs, reading the loss
};
std::string to_string(PathKind kind);  // "input gradient"

struct Compared {
  Seconds predicted;
  Seconds measured;
  Seconds error() const { return predicted - measured; }
};

struct Comparison {
  struct Kind {
    PathKind kind;
    std::int32_t steps = 0;  // on the path, but for those that take no time in either
    Compared time;           // of these
    Compared everywhere;     // of all such steps of the deployment, on the path or not; of kBetween nothing
  };
  struct OnDevice {
    DeviceIndex device;
    Compared time;
  };
  struct OfInstruction {
    DeviceIndex device;
    std::int32_t instruction;
    PathKind kind;
    Compared time;
  };
  Compared iteration;
  bool along_measured = true;     // the measured critical path was followed: it is no shorter than the predicted one
  std::vector<Kind> kinds;        // in the order of PathKind; those on the path
  std::vector<OnDevice> devices;  // ascending; those on the path; a message counts for its receiver
  std::vector<OfInstruction> instructions;  // those on the path, the largest error first
  Compared elsewhere;                       // in the shorter timeline
};

// Throws Error(kInvalidInput) unless both timelines are one whole iteration of `deployment`, which check() accepts and
// which has an instruction.
Comparison compare(const Graph& graph, const Deployment& deployment, const Timeline& predicted,
                   const Timeline& measured);

}  // namespace motley
