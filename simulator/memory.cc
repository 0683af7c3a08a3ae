#include "simulator/memory.h"

#include <algorithm>
#include <limits>

namespace motley {

namespace {
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
}  // namespace

MemoryLedger::MemoryLedger(const MemoryLayout& layout, const FlatDeployment& flat, const std::vector<Bytes>& contexts)
    : layout_(layout),
      live_(contexts.size()),
      peak_(contexts.size()),
      users_(layout.storages.size()),
      allocated_(layout.storages.size(), kNever),
      freed_(layout.storages.size(), kNever) {
  for (std::size_t p = 0; p < contexts.size(); ++p) {
    live_[p] = contexts[p].value;
    peak_[p] = {live_[p], 0, flat.first[p]};
  }
  for (std::size_t s = 0; s < layout.storages.size(); ++s) {
    users_[s] = layout.storages[s].users;
    if (layout.storages[s].from_start) {
      allocate(static_cast<std::int32_t>(s), flat.first[layout.storages[s].program]);
    }
  }
}

void MemoryLedger::allocate(std::int32_t storage, std::int32_t instruction) {
  const std::int32_t program = layout_.storages[storage].program;
  allocated_[storage] = ++step_;
  live_[program] += layout_.storages[storage].bytes;
  if (live_[program] > peak_[program].bytes) peak_[program] = {live_[program], step_, instruction};
}

void MemoryLedger::expect(std::int32_t instruction) const {
  for (const FlatLists* list : {&layout_.allocates, &layout_.touches}) {
    for (std::int32_t storage : (*list)[instruction]) {
      __builtin_prefetch(&layout_.storages[storage]);
      __builtin_prefetch(&users_[storage], 1);
      __builtin_prefetch(&allocated_[storage], 1);
      __builtin_prefetch(&freed_[storage], 1);
    }
  }
}

void MemoryLedger::allocate_for(std::int32_t instruction) {
  for (std::int32_t storage : layout_.allocates[instruction]) allocate(storage, instruction);
}

void MemoryLedger::fill_bucket(std::int32_t instruction) {
  if (layout_.bucket[instruction] != kNone) drop_user(layout_.bucket[instruction]);
}

void MemoryLedger::release_after(std::int32_t instruction) {
  for (std::int32_t storage : layout_.touches[instruction]) {
    if (storage != layout_.bucket[instruction]) drop_user(storage);
  }
}

void MemoryLedger::drop_user(std::int32_t storage) {
  if (--users_[storage] > 0 || !layout_.storages[storage].freed) return;
  freed_[storage] = ++step_;
  live_[layout_.storages[storage].program] -= layout_.storages[storage].bytes;
}

std::vector<std::vector<std::int32_t>> MemoryLedger::live_at_peak() const {
  std::vector<std::vector<std::int32_t>> live(peak_.size());
  for (std::size_t s = 0; s < layout_.storages.size(); ++s) {
    const std::int32_t program = layout_.storages[s].program;
    const std::int64_t step = peak_[program].step;
    if (layout_.storages[s].bytes > 0 && allocated_[s] <= step && step < freed_[s]) {
      live[program].push_back(static_cast<std::int32_t>(s));
    }
  }
  for (std::vector<std::int32_t>& storages : live) {
    std::stable_sort(storages.begin(), storages.end(), [this](std::int32_t a, std::int32_t b) {
      return layout_.storages[a].bytes > layout_.storages[b].bytes;
    });
  }
  return live;
}

}  // namespace motley
