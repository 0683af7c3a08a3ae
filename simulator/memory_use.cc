#include "simulator/memory_use.h"

#include "base/error.h"

namespace motley {

std::string to_string(MemoryUse use) {
  switch (use) {
    case MemoryUse::kContext:
      return "context";
    case MemoryUse::kWeights:
      return "weights";
    case MemoryUse::kGradients:
      return "gradients";
    case MemoryUse::kOptimizerStates:
      return "optimizer states";
    case MemoryUse::kActivations:
      return "activations";
    case MemoryUse::kInputs:
      return "inputs and buffers";
    case MemoryUse::kWorkspaces:
      return "workspaces";
    case MemoryUse::kCommunication:
      return "communication buffers";
    case MemoryUse::kAllocator:
      return "allocator overhead";
  }
  MOTLEY_CHECK(false, "no such use of memory");
}

}  // namespace motley
