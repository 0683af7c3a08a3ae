#include "simulator/allocator.h"

#include <utility>

#include "base/error.h"
#include "runtime/block_sizes.h"

namespace motley {
namespace {

constexpr std::int64_t kMinBlock = 512;
constexpr std::int64_t kSmallSize = std::int64_t{1} << 20;
constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20;
constexpr std::int64_t kLargeSegment = std::int64_t{20} << 20;
constexpr std::int64_t kMinLarge = std::int64_t{10} << 20;
constexpr std::int64_t kRoundLarge = std::int64_t{2} << 20;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::int64_t segment_size(std::int64_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  return size < kMinLarge ? kLargeSegment : rounded_up(size, kRoundLarge);
}

}  // namespace

CudaAllocatorModel::Block CudaAllocatorModel::allocate(Bytes bytes) {
  const std::int64_t size = std::max(kMinBlock, rounded_up(bytes.value, kMinBlock));
  const bool small = size <= kSmallSize;
  Pool& free_pieces = pool(small);
  const auto found = free_pieces.lower_bound({size, 0, 0});
  Block piece = 0;
  if (found != free_pieces.end()) {
    piece = found->piece;
    free_pieces.erase(found);
  } else {
    piece = add_segment(segment_size(size), small);
  }
  const std::int64_t rest = pieces_[piece].size - size;
  if (small ? rest >= kMinBlock : rest > kSmallSize) split(piece, size);
  pieces_[piece].used = true;
  allocated_by(Bytes(pieces_[piece].size));
  return piece;
}

void CudaAllocatorModel::free(Block piece) {
  pieces_[piece].used = false;
  allocated_by(-Bytes(pieces_[piece].size));
  if (const Block next = pieces_[piece].next; next >= 0 && !pieces_[next].used) {
    take(next);
    join_next(piece);
  }
  if (const Block previous = pieces_[piece].previous; previous >= 0 && !pieces_[previous].used) {
    take(previous);
    join_next(previous);
    piece = previous;
  }
  put(piece);
}

CudaAllocatorModel::Block CudaAllocatorModel::add(const Piece& piece) {
  if (unused_.empty()) {
    pieces_.push_back(piece);
    return static_cast<Block>(pieces_.size() - 1);
  }
  const Block place = unused_.back();
  unused_.pop_back();
  pieces_[place] = piece;
  return place;
}

CudaAllocatorModel::Block CudaAllocatorModel::add_segment(std::int64_t size, bool small) {
  if (reserved().value + size > capacity_) {
    give_back_segments(small_);
    give_back_segments(large_);
  }
  reserved_by(Bytes(size));
  const std::int64_t address = std::exchange(next_address_, next_address_ + size);
  return add({.address = address, .size = size, .small = small});
}

// The rest of the piece behind the first `size` bytes becomes a free piece.
void CudaAllocatorModel::split(Block piece, std::int64_t size) {
  const Piece whole = pieces_[piece];
  const Block rest = add({.address = whole.address + size,
                          .size = whole.size - size,
                          .previous = piece,
                          .next = whole.next,
                          .small = whole.small});
  pieces_[piece].size = size;
  pieces_[piece].next = rest;
  if (whole.next >= 0) pieces_[whole.next].previous = rest;
  put(rest);
}

void CudaAllocatorModel::join_next(Block piece) {
  const Block next = pieces_[piece].next;
  pieces_[piece].size += pieces_[next].size;
  pieces_[piece].next = pieces_[next].next;
  if (pieces_[piece].next >= 0) pieces_[pieces_[piece].next].previous = piece;
  unused_.push_back(next);
}

void CudaAllocatorModel::give_back_segments(Pool& pool) {
  std::erase_if(pool, [this](const BySize& free) {
    if (pieces_[free.piece].previous >= 0 || pieces_[free.piece].next >= 0) return false;
    reserved_by(-Bytes(free.size));
    unused_.push_back(free.piece);
    return true;
  });
}

CpuAllocatorModel::Block CpuAllocatorModel::allocate(Bytes bytes) {
  const std::int64_t asked = bytes.value;
  const std::size_t size_class = block_class(static_cast<std::size_t>(asked));
  if (size_class >= unused_.size()) unused_.resize(size_class + 1);
  std::vector<Block>& unused = unused_[size_class];
  Block block = static_cast<Block>(pieces_.size());
  if (unused.empty()) {
    pieces_.push_back({.size_class = size_class});
  } else {
    block = unused.back();
    unused.pop_back();
  }
  Piece& piece = pieces_[block];
  piece.asked = asked;
  const auto resident =
      asked == 0 ? 0 : static_cast<std::int64_t>(resident_block_bytes(static_cast<std::size_t>(asked)));
  if (resident > piece.resident) reserved_by(Bytes(resident - std::exchange(piece.resident, resident)));
  allocated_by(bytes);
  return block;
}

void CpuAllocatorModel::free(Block block) {
  allocated_by(-Bytes(pieces_[block].asked));
  unused_[pieces_[block].size_class].push_back(block);
}

std::unique_ptr<AllocatorModel> make_allocator_model(AllocatorKind kind, Bytes capacity) {
  switch (kind) {
    case AllocatorKind::kNone:
      return nullptr;
    case AllocatorKind::kCpu:
      return std::make_unique<CpuAllocatorModel>();
    case AllocatorKind::kCuda:
      return std::make_unique<CudaAllocatorModel>(capacity);
  }
  MOTLEY_CHECK(false, "no such allocator");
}

}  // namespace motley
