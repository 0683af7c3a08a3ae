#include "runtime/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <vector>

#include "base/control_group.h"
#include "runtime/block_sizes.h"

namespace motley {
namespace {

constexpr std::size_t kAlignment = 64;

// Stands in the cache line before the data, since LibTorch gives back no more than the data's address.
struct alignas(kAlignment) Header {
  std::size_t asked;
  std::size_t size_class;
  std::size_t resident;  // most of the block that was ever in use
};
static_assert(sizeof(Header) == kBlockHeader);

class CpuAllocator : public c10::Allocator {
 public:
  // Never destroyed: tensors may outlive static objects.
  static CpuAllocator& instance() {
    static auto* allocator = new CpuAllocator;
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &give_back, c10::kCPU};
    const std::size_t size_class = block_class(bytes);
    void* block = take(size_class);
    Header& header = *static_cast<Header*>(block);
    header.asked = bytes;
    header.size_class = size_class;
    count(allocated_, peak_, bytes);
    if (const std::size_t resident = resident_block_bytes(bytes); resident > header.resident) {
      count(resident_, resident_peak_, resident - header.resident);
      header.resident = resident;
    }
    void* data = static_cast<std::byte*>(block) + sizeof(Header);
    return {data, data, &give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  CpuMemoryCount memory() const { return {allocated_.load(), peak_.load(), resident_peak_.load()}; }
  void reset_peak() {
    peak_ = allocated_.load();
    resident_peak_ = resident_.load();
  }
  void limit(Bytes of_process) { limit_ = of_process.value; }
  void release_cached() {
    std::lock_guard lock(mutex_);
    for (std::vector<void*>& blocks : unused_) {
      for (void* block : blocks) {
        resident_ -= static_cast<std::int64_t>(static_cast<Header*>(block)->resident);
        std::free(block);
      }
      blocks.clear();
    }
    ::malloc_trim(0);  // the C library keeps them otherwise
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
    const std::size_t bytes = block_bytes(size_class) + sizeof(Header);
    void* block = within_limit(bytes) ? from_system(bytes) : nullptr;
    if (block == nullptr) {
      release_cached();
      if (within_limit(bytes)) block = from_system(bytes);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "the system has no ", bytes, " bytes of memory left");
    static_cast<Header*>(block)->resident = 0;
    return block;
  }
  bool within_limit(std::size_t bytes) const {
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    const std::int64_t limit = limit_.load(std::memory_order_relaxed);
    return limit == kNone || process_memory().own.value + static_cast<std::int64_t>(bytes) <= limit;
  }
  static void* from_system(std::size_t bytes) {
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    void* block = nullptr;
    if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
    if (bytes >= kHugePage) madvise(block, bytes, MADV_HUGEPAGE);
    return block;
  }

  static void count(std::atomic<std::int64_t>& total, std::atomic<std::int64_t>& most, std::size_t bytes) {
    const std::int64_t now = total += static_cast<std::int64_t>(bytes);
    std::int64_t peak = most.load(std::memory_order_relaxed);
    while (now > peak && !most.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }

  std::mutex mutex_;
  std::array<std::vector<void*>, kBlockClasses> unused_;
  std::atomic<std::int64_t> allocated_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
  std::atomic<std::int64_t> resident_ = 0;
  std::atomic<std::int64_t> resident_peak_ = 0;
  std::atomic<std::int64_t> limit_ = std::numeric_limits<std::int64_t>::max();
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
void limit_cpu_memory(Bytes of_process) { CpuAllocator::instance().limit(of_process); }

}  // namespace motley
