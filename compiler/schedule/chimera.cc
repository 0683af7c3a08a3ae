// Two pipelines in opposite directions over the same devices (Chimera: Li, Hoefler, SC 2021): the one fills the other's
// bubbles, at the price of a second copy of the weights. Stage s works on rank s for the micro-batches that go down,
// and on rank p-1-s for those that go up.

#include "compiler/schedule/kinds.h"

namespace motley {

MadeSchedule chimera(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("chimera");
  const std::int32_t stages = stage_count(pipeline);
  // Slots of one pass each. With equal passes and an even number of stages no two fall together; with an odd number,
  // two on each rank and the way up a slot later. A pass's inputs come from earlier slots, so that ranks which work by
  // slot never wait for each other for ever. Half a unit goes down, half up; the next unit follows when the first stage
  // has its last gradient.
  struct Slot {
    std::int32_t at;
    Step step;
  };
  std::vector<std::vector<Slot>> ranks(pipeline.room.size());
  const std::int32_t half = (stages + 1) / 2;
  for (std::int32_t m = 0; m < pipeline.micro_batches; ++m) {
    const std::int32_t unit = m / (2 * half), place = m % (2 * half) / 2;
    const bool down = m % 2 == 0;
    const std::int32_t begin = 2 * stages * unit + 2 * place + (down ? 0 : stages % 2);
    for (std::int32_t s = 0; s < stages; ++s) {
      auto& slots = ranks[pipeline.stages[down ? s : stages - 1 - s].rank];
      slots.push_back({begin + s, {Pass::kForward, s, m}});
      slots.push_back({begin + 2 * stages - 1 - s, {Pass::kBackward, s, m}});
    }
  }
  Schedule schedule;
  for (std::vector<Slot>& slots : ranks) {
    std::ranges::stable_sort(slots, {}, &Slot::at);
    std::vector<Step>& steps = schedule.ranks.emplace_back();
    for (const Slot& slot : slots) steps.push_back(slot.step);
  }
  return schedule;
}

}  // namespace motley
