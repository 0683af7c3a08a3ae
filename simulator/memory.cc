#include "simulator/memory.h"

#include <algorithm>
#include <utility>

namespace motley {

MemoryLedger::MemoryLedger(const MemoryLayout& layout, const FlatDeployment& flat, const std::vector<Bytes>& fixed)
    : layout_(layout), live_(fixed.size()), peak_(fixed.size()), lives_(layout.storages.size()) {
  for (std::size_t p = 0; p < fixed.size(); ++p) {
    live_[p] = fixed[p].value;
    peak_[p] = {live_[p], flat.first[p], 0};
  }
  for (std::size_t s = 0; s < layout.storages.size(); ++s) {
    const Storage& storage = layout.storages[s];
    lives_[s] = {storage.bytes, storage.program, storage.freed ? storage.users : kForever};
    if (storage.from_start) allocate(static_cast<std::int32_t>(s), flat.first[storage.program]);
  }
}

void MemoryLedger::allocate(std::int32_t storage, std::int32_t instruction) {
  Life& life = lives_[storage];
  life.allocated = ++step_;
  live_[life.program] += life.bytes;
  Peak& peak = peak_[life.program];
  if (live_[life.program] > peak.bytes) peak = {live_[life.program], instruction, step_};
}

void MemoryLedger::expect(std::int32_t instruction) const {
  for (const FlatLists* list : {&layout_.allocates, &layout_.touches}) {
    list->fetch_after(instruction);
    for (std::int32_t storage : (*list)[instruction]) __builtin_prefetch(&lives_[storage], 1);
  }
}

void MemoryLedger::allocate_for(std::int32_t instruction) {
  for (std::int32_t storage : layout_.allocates[instruction]) allocate(storage, instruction);
}

void MemoryLedger::fill_bucket(std::int32_t instruction) {
  if (layout_.bucket[instruction] != kNone) drop_user(layout_.bucket[instruction]);
}

void MemoryLedger::release_after(std::int32_t instruction) {
  for (std::int32_t storage : layout_.touches[instruction]) drop_user(storage);
}

void MemoryLedger::drop_user(std::int32_t storage) {
  Life& life = lives_[storage];
  if (life.users == kForever || --life.users > 0) return;
  life.freed = ++step_;
  live_[life.program] -= life.bytes;
}

std::vector<std::int32_t> MemoryLedger::requests(std::int32_t program) const {
  const auto begin = std::ranges::lower_bound(layout_.storages, program, {}, &Storage::program);
  const auto end = std::ranges::upper_bound(layout_.storages, program, {}, &Storage::program);
  std::vector<std::pair<Step, std::int32_t>> ordered;
  for (auto storage = begin; storage != end; ++storage) {
    const auto s = static_cast<std::int32_t>(storage - layout_.storages.begin());
    if (lives_[s].allocated != kNever) ordered.emplace_back(lives_[s].allocated, s);
    if (lives_[s].freed != kNever) ordered.emplace_back(lives_[s].freed, ~s);
  }
  std::sort(ordered.begin(), ordered.end());
  std::vector<std::int32_t> requests;
  requests.reserve(ordered.size());
  for (const auto& [step, request] : ordered) requests.push_back(request);
  return requests;
}

std::vector<std::vector<std::int32_t>> MemoryLedger::live_at_peak() const {
  std::vector<std::vector<std::int32_t>> live(peak_.size());
  for (std::size_t s = 0; s < layout_.storages.size(); ++s) {
    const std::int32_t program = layout_.storages[s].program;
    const Step step = peak_[program].step;
    if (layout_.storages[s].bytes > 0 && lives_[s].allocated <= step && step < lives_[s].freed) {
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

void Replay::run(const std::vector<std::int32_t>& requests, AllocatorModel& allocator) {
  const auto allocate = [&](std::int32_t storage) {
    blocks_[storage] = allocator.allocate(Bytes(layout_.storages[storage].bytes));
  };
  const auto free = [&](std::int32_t storage) { allocator.free(std::exchange(blocks_[storage], kNoBlock)); };
  for (const std::int32_t request : requests) {
    if (request >= 0 && layout_.storages[request].persistent) allocate(request);
  }
  Bytes before(-1);
  for (int i = 0; i < kIterations && allocator.reserved_peak() != before; ++i) {
    before = allocator.reserved_peak();
    for (const std::int32_t request : requests) {
      if (request < 0) {
        free(~request);
      } else if (blocks_[request] == kNoBlock) {
        allocate(request);
      }
    }
    for (const std::int32_t request : requests) {  // the loss; and new weights have replaced the old ones
      if (request >= 0 && blocks_[request] != kNoBlock && !layout_.storages[request].persistent) free(request);
    }
  }
}

}  // namespace motley
