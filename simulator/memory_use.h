#pragma once

// What a device's memory is used for: what its user changes to need less, be it the batch, the shares, the optimizer or
// the size of buckets.

#include <array>
#include <cstdint>
#include <numeric>
#include <string>

#include "base/units.h"

namespace motley {

enum class MemoryUse : std::uint8_t {
  kContext,          // of the process and the device beside tensors (CostModel::context)
  kWeights,          // the parameters
  kGradients,        // and their parts and sums
  kOptimizerStates,  // of the parameters
  kActivations,      // what forward ops make, and what autograd keeps beside it for the backward ops
  kInputs,           // the model's inputs, buffers and constants; on a CPU also the inputs of the next iteration
  kWorkspaces,       // of ops, while they run
  kCommunication,    // buckets while they are packed; received weights that wait beside the old ones; Gloo's own
  kAllocator,        // held beyond what was asked for: rounded up, or kept for later
};
inline constexpr std::array kMemoryUses = {
    MemoryUse::kContext,         MemoryUse::kWeights,       MemoryUse::kGradients,
    MemoryUse::kOptimizerStates, MemoryUse::kActivations,   MemoryUse::kInputs,
    MemoryUse::kWorkspaces,      MemoryUse::kCommunication, MemoryUse::kAllocator};

std::string to_string(MemoryUse use);  // "optimizer states"

class MemoryByUse {
 public:
  Bytes& operator[](MemoryUse use) { return bytes_[static_cast<std::size_t>(use)]; }
  Bytes operator[](MemoryUse use) const { return bytes_[static_cast<std::size_t>(use)]; }
  Bytes sum() const { return std::accumulate(bytes_.begin(), bytes_.end(), Bytes()); }

 private:
  std::array<Bytes, kMemoryUses.size()> bytes_;
};

}  // namespace motley
