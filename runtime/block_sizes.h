#pragma once

// The sizes of blocks that motley's allocator for CPU devices (runtime/cpu_allocator.h) takes from the system, and how
// much of them is resident. Apart, for whoever predicts memory. Pure functions.

#include <algorithm>
#include <bit>
#include <cstddef>

namespace motley {

inline constexpr std::size_t kBlockHeader = 64;  // before the data, in a cache line of its own
inline constexpr std::size_t kSmallestBlock = 64;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;
inline constexpr int kBlockStepsPerDoubling = 8;  // a block is at most an eighth larger than what was asked for

// Class c holds blocks of (8 + c % 8) << (c / 8 + 3) bytes; requests take the smallest that holds them.
constexpr std::size_t block_class(std::size_t bytes) {
  bytes = std::max(bytes, kSmallestBlock);
  const int exponent = std::bit_width(bytes) - 1;
  const std::size_t step = std::size_t{1} << (exponent - 3);
  return static_cast<std::size_t>(exponent - 6) * kBlockStepsPerDoubling + (bytes + step - 1) / step -
         kBlockStepsPerDoubling;
}
constexpr std::size_t block_bytes(std::size_t block_class) {
  return (kBlockStepsPerDoubling + block_class % kBlockStepsPerDoubling) << (block_class / kBlockStepsPerDoubling + 3);
}
inline constexpr std::size_t kBlockClasses = 64 * kBlockStepsPerDoubling;

// Of a block that served a request for `bytes`: the header and the pages that were written. Blocks from the size of a
// huge page on begin at one and consist of such, but for what is left of the block at its end.
constexpr std::size_t resident_block_bytes(std::size_t bytes) {
  const std::size_t block = block_bytes(block_class(bytes)) + kBlockHeader;
  const std::size_t written = bytes + kBlockHeader;
  if (block < kHugePage) return written;
  const std::size_t huge = block / kHugePage * kHugePage;
  return written <= huge ? (written + kHugePage - 1) / kHugePage * kHugePage : written;
}

}  // namespace motley
