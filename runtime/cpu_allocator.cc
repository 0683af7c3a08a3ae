#include "runtime/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace motley {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmallest = 64;
constexpr int kStepsPerDoubling = 8;  // a block is at most an eighth larger than what was asked for

// Stands in the cache line before the data, since LibTorch gives back no more than the data's address.
struct alignas(kAlignment) Header {
  std::size_t asked;
  std::size_t size_class;
};
static_assert(sizeof(Header) == kAlignment);

// Class c holds blocks of (8 + c % 8) << (c / 8 + 3) bytes.
std::size_t class_bytes(std::size_t size_class) {
  return (kStepsPerDoubling + size_class % kStepsPerDoubling) << (size_class / kStepsPerDoubling + 3);
}
std::size_t class_of(std::size_t bytes) {
  bytes = std::max(bytes, kSmallest);
  const int exponent = std::bit_width(bytes) - 1;
  const std::size_t step = std::size_t{1} << (exponent - 3);
  return static_cast<std::size_t>(exponent - 6) * kStepsPerDoubling + (bytes + step - 1) / step - kStepsPerDoubling;
}
static_assert(kSmallest == 64);

class CpuAllocator : public c10::Allocator {
 public:
  // Never destroyed: tensors may outlive static objects.
  static CpuAllocator& instance() {
    static auto* allocator = new CpuAllocator;
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &give_back, c10::kCPU};
    const std::size_t size_class = class_of(bytes);
    void* block = take(size_class);
    *static_cast<Header*>(block) = {bytes, size_class};
    count(static_cast<std::int64_t>(bytes));
    void* data = static_cast<std::byte*>(block) + sizeof(Header);
    return {data, data, &give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  CpuMemoryCount memory() const { return {allocated_.load(), peak_.load()}; }
  void reset_peak() { peak_ = allocated_.load(); }
  void release_cached() {
    std::lock_guard lock(mutex_);
    for (std::vector<void*>& blocks : unused_) {
      for (void* block : blocks) std::free(block);
      blocks.clear();
    }
  }

 private:
  static void give_back(void* data) {
    if (data == nullptr) return;
    void* block = static_cast<std::byte*>(data) - sizeof(Header);
    const Header header = *static_cast<Header*>(block);
    CpuAllocator& allocator = instance();
    allocator.allocated_ -= static_cast<std::int64_t>(header.asked);
    std::lock_guard lock(allocator.mutex_);
    allocator.unused_[header.size_class].push_back(block);
  }

  void* take(std::size_t size_class) {
    {
      std::lock_guard lock(mutex_);
      std::vector<void*>& blocks = unused_.at(size_class);
      if (!blocks.empty()) {
        void* block = blocks.back();  // the one whose lines are still in the cache
        blocks.pop_back();
        return block;
      }
    }
    const std::size_t bytes = class_bytes(size_class) + sizeof(Header);
    void* block = from_system(bytes);
    if (block == nullptr) {
      release_cached();
      block = from_system(bytes);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "the system has no ", bytes, " bytes of memory left");
    return block;
  }
  static void* from_system(std::size_t bytes) {
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    void* block = nullptr;
    if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
    if (bytes >= kHugePage) madvise(block, bytes, MADV_HUGEPAGE);
    return block;
  }

  void count(std::int64_t bytes) {
    const std::int64_t now = allocated_ += bytes;
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }

  std::mutex mutex_;
  std::array<std::vector<void*>, 64 * kStepsPerDoubling> unused_;
  std::atomic<std::int64_t> allocated_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

}  // namespace

void install_cpu_allocator() {
  static const bool installed = [] {
    c10::SetCPUAllocator(&CpuAllocator::instance(), 1);
    return true;
  }();
  static_cast<void>(installed);
}
CpuMemoryCount cpu_memory() { return CpuAllocator::instance().memory(); }
void reset_cpu_memory_peak() { CpuAllocator::instance().reset_peak(); }
void release_cached_cpu_memory() { CpuAllocator::instance().release_cached(); }

}  // namespace motley
