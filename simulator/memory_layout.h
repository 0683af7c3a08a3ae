#pragma once

// Which memory each instruction of a deployment makes, uses and sets free.

#include <cstdint>
#include <vector>

#include "simulator/flat.h"
#include "simulator/memory_use.h"

namespace motley {

// Memory that is allocated and freed as one.
struct Storage {
  enum class Kind : std::uint8_t {
    kValue,      // values that alias each other
    kKept,       // what a forward op keeps for its backward
    kWorkspace,  // of an op, while it runs
    kBucket,     // several gradients packed for an all-reduce: the parts live until they are packed
    kReceived,   // new weights that wait beside the old ones until the iteration ends
  };
  std::int64_t bytes = 0;
  std::int32_t program = 0;
  std::int32_t users = 0;   // entries of `touches`, or the bucket's one: what must happen before it is free
  TensorId tensor = kNone;  // kValue: of the value that owns it; kReceived: of the weights
  OpId op = kNone;          // kKept, kWorkspace: whose
  Kind kind = Kind::kValue;
  bool from_start = false;  // persistent values, inputs
  bool persistent = false;  // lives across iterations
  bool freed = true;        // free once its users have ended; else it lives on
};

struct MemoryLayout {
  MemoryLayout(const Graph& graph, const Deployment& deployment, const FlatDeployment& flat);

  std::vector<Storage> storages;     // by program
  FlatLists allocates;               // per instruction: storages that it makes
  FlatLists touches;                 // per instruction: storages of which it is the last user on its stream
  std::vector<std::int32_t> bucket;  // per instruction: a kBucket, free once it is filled; kNone for others
};

MemoryUse use_of(const Graph& graph, const Storage& storage);

}  // namespace motley
