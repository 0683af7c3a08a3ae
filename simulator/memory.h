#pragma once

// The memory of every device while a deployment runs: storages are allocated and freed, the peak is kept, and what was
// live at the peak can be told afterwards. Counts bytes; what an allocator makes of the same requests is
// told by a Replay.

#include <cstdint>
#include <limits>
#include <vector>

#include "simulator/allocator.h"
#include "simulator/memory_layout.h"
#include "simulator/simulator.h"

namespace motley {

class MemoryLedger {
 public:
  // `layout` must outlive the ledger. Counts what is fixed, by program, and what lives from the start.
  MemoryLedger(const MemoryLayout& layout, const FlatDeployment& flat, const std::vector<Bytes>& fixed);

  // `instruction` will start or end soon: fetches what the calls for it will touch into the processor's caches.
  void expect(std::int32_t instruction) const;
  // Before `instruction` starts: makes its outputs' room.
  void allocate_for(std::int32_t instruction);
  // Once an all-reduce's bucket is filled. It counts as it is allocated, before the parts go.
  void fill_bucket(std::int32_t instruction);
  // When `instruction` has ended: frees what nobody else uses.
  void release_after(std::int32_t instruction);

  std::int64_t live(std::int32_t program) const { return live_[program]; }
  std::int64_t peak(std::int32_t program) const { return peak_[program].bytes; }
  // The instruction that allocated last before the peak; the program's first when the peak is at the start.
  std::int32_t peak_instruction(std::int32_t program) const { return peak_[program].instruction; }
  // What was asked for in an iteration, in order: s allocates storage s, ~s frees it. What lives from the start comes
  // first.
  std::vector<std::int32_t> requests(std::int32_t program) const;
  // Indices into MemoryLayout::storages, by program: those live at its peak, the largest first.
  std::vector<std::vector<std::int32_t>> live_at_peak() const;

 private:
  // Two per storage at most, so that 32 bits do.
  using Step = std::uint32_t;
  static constexpr Step kNever = std::numeric_limits<Step>::max();
  static constexpr std::int32_t kForever = std::numeric_limits<std::int32_t>::max();
  // Of a storage, with what allocating and freeing it takes: one cache line, where there are millions.
  struct Life {
    std::int64_t bytes = 0;
    std::int32_t program = 0;
    std::int32_t users = 0;   // instructions that have yet to end; kForever when it is never freed
    Step allocated = kNever;  // when it was
    Step freed = kNever;
  };
  struct Peak {
    std::int64_t bytes = 0;
    std::int32_t instruction = 0;
    Step step = 0;
  };
  void allocate(std::int32_t storage, std::int32_t instruction);
  void drop_user(std::int32_t storage);

  const MemoryLayout& layout_;
  std::vector<std::int64_t> live_;  // per program
  std::vector<Peak> peak_;          // per program
  std::vector<Life> lives_;         // per storage
  Step step_ = 0;
};

// Runs programs' requests through models of allocators, as workers do: first what persists, then iterations until one
// takes no more of the device than those before it, kIterations at most, since free blocks of one iteration are cut
// anew in the next.
class Replay {
 public:
  static constexpr int kIterations = 4;

  explicit Replay(const MemoryLayout& layout) : layout_(layout), blocks_(layout.storages.size(), kNoBlock) {}
  // Of one program, as MemoryLedger::requests gives them.
  void run(const std::vector<std::int32_t>& requests, AllocatorModel& allocator);

 private:
  static constexpr AllocatorModel::Block kNoBlock = -1;

  const MemoryLayout& layout_;
  std::vector<AllocatorModel::Block> blocks_;  // per storage; kNoBlock while it is not allocated
};

}  // namespace motley
