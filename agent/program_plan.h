#pragma once

// What a program's runner looks up at every instruction, worked out once.

#include <cstdint>
#include <vector>

#include "compiler/deployment.h"
#include "graph/graph.h"

namespace motley {

struct ProgramPlan {
  struct Value {
    std::int32_t uses = 0;               // instructions that take it; a value is dropped after the last one
    std::vector<std::int32_t> messages;  // sends and collectives that take it
    ValueId state = kNone;               // the persistent value whose storage it replaces (received weights)
  };
  std::vector<Value> values;
  std::vector<std::int32_t> place;     // of each instruction among those of its stream
  std::vector<std::int32_t> inputs;    // number of values, each counted once, that a send or collective waits for
  std::vector<std::int32_t> receives;  // instructions, in order
  std::vector<char> runs_again;        // by instruction: of an op that runs once more on the same micro-batch
  // By instruction, of a forward op: places among its inputs and, beyond them, its outputs, for which its backward ops
  // have values of other storage: what was made again, or was on another device meanwhile.
  std::vector<std::vector<std::int32_t>> brought;

  ProgramPlan(const Graph& graph, const Program& program);

 private:
  void find_brought(const Graph& graph, const Program& program);
};

}  // namespace motley
