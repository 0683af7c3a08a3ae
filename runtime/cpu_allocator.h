#pragma once

// LibTorch's memory on CPU devices: blocks that were given back are kept by size and handed out again, as its
// allocators for accelerators do. Training asks for the same sizes in every iteration; from the system, each large
// block would be mapped, zeroed page by page and unmapped anew. It also counts, so that a CPU device has memory
// statistics.
//
// One per process, as LibTorch has one place for it. Thread-safe.

#include <cstdint>

#include "base/units.h"

namespace motley {

struct CpuMemoryCount {
  std::int64_t allocated = 0;      // bytes asked for and not yet given back
  std::int64_t peak = 0;           // most of that since reset_cpu_memory_peak
  std::int64_t resident_peak = 0;  // most that its blocks, used or kept, had of the machine's memory since then
};

void install_cpu_allocator();  // the first call does it; tensors made before keep their own memory
CpuMemoryCount cpu_memory();
void reset_cpu_memory_peak();
void release_cached_cpu_memory();  // returns unused blocks to the system
// What would make the process larger than that fails, as on an accelerator whose memory is full: where a control group
// limits memory, the kernel would end the process without a word.
void limit_cpu_memory(Bytes of_process);

}  // namespace motley
