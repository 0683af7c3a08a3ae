#pragma once

// What a device's allocator holds of its memory, beyond the bytes that a program asks for: the very rules by which the
// allocators that workers run on take memory from the device, split it, join it and keep it. Deterministic; no global
// state. One thread.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "profiler/cost_model.h"

namespace motley {

class AllocatorModel {
 public:
  using Block = std::int32_t;

  virtual ~AllocatorModel() = default;
  virtual Block allocate(Bytes bytes) = 0;  // of 0 bytes too
  virtual void free(Block block) = 0;       // one that allocate gave, once

  Bytes allocated() const { return allocated_; }  // as the allocator's own statistics count what is in use
  Bytes reserved() const { return reserved_; }    // of the device's memory, whether in use or kept for later
  Bytes allocated_peak() const { return allocated_peak_; }
  Bytes reserved_peak() const { return reserved_peak_; }

 protected:
  void allocated_by(Bytes change) {
    allocated_ += change;
    allocated_peak_ = std::max(allocated_peak_, allocated_);
  }
  void reserved_by(Bytes change) {
    reserved_ += change;
    reserved_peak_ = std::max(reserved_peak_, reserved_);
  }

 private:
  Bytes allocated_, reserved_, allocated_peak_, reserved_peak_;
};

// LibTorch's allocator for CUDA devices with its default settings (c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.14:
// round_size, get_pool, get_free_block, should_split, try_merge_blocks, get_allocation_size, release_cached_blocks;
// constants in c10/core/AllocatorConfig.h):
//  - A request is rounded up to 512 bytes. Up to 1 MiB it is served from the small pool, else from the large one.
//  - It takes the smallest free block of its pool that is large enough, at equal sizes the one at the lowest address;
//    else a new segment: of 2 MiB in the small pool; in the large one 20 MiB for less than 10 MiB, else the request
//    rounded up to 2 MiB.
//  - What is left of the block goes back as a free block: in the small pool from 512 bytes on, in the large one when it
//    is over 1 MiB. What is not split off counts as allocated.
//  - A block that is freed is joined with free neighbours of its segment.
//  - When a new segment would exceed `capacity`, segments that are free as a whole are given back first. When that does
//    not help, the real one fails; here reserved() goes beyond `capacity`, so that one can tell by how much.
// All requests are of one stream, as a worker's are: it allocates from its compute stream's pools alone.
class CudaAllocatorModel : public AllocatorModel {
 public:
  explicit CudaAllocatorModel(Bytes capacity) : capacity_(capacity.value) {}
  Block allocate(Bytes bytes) override;
  void free(Block block) override;

 private:
  struct Piece {  // of a segment
    std::int64_t address = 0;
    std::int64_t size = 0;
    Block previous = -1;  // neighbours in the segment
    Block next = -1;
    bool small = false;
    bool used = false;
  };
  struct BySize {
    std::int64_t size;
    std::int64_t address;
    Block piece;
    auto operator<=>(const BySize&) const = default;
  };
  using Pool = std::set<BySize>;

  Pool& pool(bool small) { return small ? small_ : large_; }
  BySize key(Block piece) const { return {pieces_[piece].size, pieces_[piece].address, piece}; }
  void put(Block piece) { pool(pieces_[piece].small).insert(key(piece)); }
  void take(Block piece) { pool(pieces_[piece].small).erase(key(piece)); }
  Block add(const Piece& piece);
  Block add_segment(std::int64_t size, bool small);
  void split(Block piece, std::int64_t size);
  void join_next(Block piece);  // with the piece after it, which is free
  void give_back_segments(Pool& pool);

  std::int64_t capacity_;
  std::int64_t next_address_ = 0;  // the driver's addresses rise
  std::vector<Piece> pieces_;
  std::vector<Block> unused_;  // places in pieces_
  Pool small_, large_;         // free pieces
};

// motley's own allocator for CPU devices (runtime/cpu_allocator.h): blocks of eight sizes per doubling are kept by size
// and handed out again, the last one given back first; none is split or joined. reserved() is what is resident of them
// (runtime/block_sizes.h): pages that no request has reached yet are none of it.
class CpuAllocatorModel : public AllocatorModel {
 public:
  Block allocate(Bytes bytes) override;
  void free(Block block) override;

 private:
  struct Piece {
    std::int64_t asked = 0;
    std::int64_t resident = 0;
    std::size_t size_class = 0;
  };
  std::vector<Piece> pieces_;
  std::vector<std::vector<Block>> unused_;  // by size class; the last one goes first
};

// `capacity` is what the allocator may take. Null for AllocatorKind::kNone.
std::unique_ptr<AllocatorModel> make_allocator_model(AllocatorKind kind, Bytes capacity);

}  // namespace motley
