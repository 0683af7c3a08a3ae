#include "simulator/memory.h"

#include <algorithm>
#include <limits>

namespace motley {

namespace {
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
}  // namespace

MemoryLedger::MemoryLedger(const FlatDeployment& flat, const std::vector<Bytes>& contexts)
    : flat_(flat),
      live_(contexts.size()),
      peak_(contexts.size()),
      users_(flat.storages.size()),
      allocated_(flat.storages.size(), kNever),
      freed_(flat.storages.size(), kNever) {
  for (std::size_t p = 0; p < contexts.size(); ++p) {
    live_[p] = contexts[p].value;
    peak_[p] = {live_[p], 0, flat.first[p]};
  }
  for (std::size_t s = 0; s < flat.storages.size(); ++s) {
    users_[s] = flat.storages[s].users;
    if (flat.storages[s].from_start) {
      allocate(static_cast<std::int32_t>(s), flat.first[flat.storages[s].program]);
    }
  }
}

void MemoryLedger::allocate(std::int32_t storage, std::int32_t instruction) {
  const std::int32_t program = flat_.storages[storage].program;
  allocated_[storage] = ++step_;
  live_[program] += flat_.storages[storage].bytes;
  if (live_[program] > peak_[program].bytes) peak_[program] = {live_[program], step_, instruction};
}

void MemoryLedger::allocate_for(std::int32_t instruction) {
  for (std::int32_t storage : flat_.allocates[instruction]) allocate(storage, instruction);
}

void MemoryLedger::fill_bucket(std::int32_t instruction) {
  if (flat_.bucket[instruction] != kNone) drop_user(flat_.bucket[instruction]);
}

void MemoryLedger::release_after(std::int32_t instruction) {
  for (std::int32_t storage : flat_.touches[instruction]) {
    if (storage != flat_.bucket[instruction]) drop_user(storage);
  }
}

void MemoryLedger::drop_user(std::int32_t storage) {
  if (--users_[storage] > 0 || !flat_.storages[storage].freed) return;
  freed_[storage] = ++step_;
  live_[flat_.storages[storage].program] -= flat_.storages[storage].bytes;
}

std::vector<std::vector<std::int32_t>> MemoryLedger::live_at_peak() const {
  std::vector<std::vector<std::int32_t>> live(peak_.size());
  for (std::size_t s = 0; s < flat_.storages.size(); ++s) {
    const std::int32_t program = flat_.storages[s].program;
    const std::int64_t step = peak_[program].step;
    if (flat_.storages[s].bytes > 0 && allocated_[s] <= step && step < freed_[s]) {
      live[program].push_back(static_cast<std::int32_t>(s));
    }
  }
  for (std::vector<std::int32_t>& storages : live) {
    std::stable_sort(storages.begin(), storages.end(), [this](std::int32_t a, std::int32_t b) {
      return flat_.storages[a].bytes > flat_.storages[b].bytes;
    });
  }
  return live;
}

}  // namespace motley
