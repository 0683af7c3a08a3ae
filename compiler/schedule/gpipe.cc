// All forward passes, then all backward passes (Huang et al., NeurIPS 2019). The last micro-batch goes back first: what
// it keeps is the freshest.

#include "compiler/schedule/kinds.h"

namespace motley {

MadeSchedule gpipe(const Pipeline& pipeline) {
  Schedule schedule;
  schedule.ranks.resize(pipeline.room.size());
  // Stages that share a rank take turns for all micro-batches.
  for (std::int32_t stage = 0; stage < stage_count(pipeline); ++stage) {
    auto& steps = schedule.ranks[pipeline.stages[stage].rank];
    for (std::int32_t m = 0; m < pipeline.micro_batches; ++m) steps.push_back({Pass::kForward, stage, m});
  }
  for (std::int32_t stage = stage_count(pipeline) - 1; stage >= 0; --stage) {
    auto& steps = schedule.ranks[pipeline.stages[stage].rank];
    for (std::int32_t m = pipeline.micro_batches - 1; m >= 0; --m) steps.push_back({Pass::kBackward, stage, m});
  }
  return schedule;
}

}  // namespace motley
