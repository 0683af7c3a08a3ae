// Zero bubble (Qi et al., ICLR 2024): the weight gradient, which nobody waits for, fills the time in which a stage
// would wait. H1 keeps as much as 1F1B, H2 about twice that.

#include "compiler/schedule/kinds.h"

namespace motley {
namespace {

// A forward and an input gradient in turns, in this order; weight gradients `lag` micro-batches behind.
void alternate(std::vector<Step>& steps, std::int32_t stage, std::int32_t micro_batches, std::int32_t warm_up,
               std::int32_t lag, bool forward_first) {
  std::int32_t forward = 0;
  const auto push_forward = [&] {
    if (forward < micro_batches) steps.push_back({Pass::kForward, stage, forward++});
  };
  while (forward < std::min(warm_up, micro_batches)) push_forward();
  std::int32_t weights = 0;
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    if (forward_first || forward == m) push_forward();
    steps.push_back({Pass::kInputGradient, stage, m});
    if (m >= lag) steps.push_back({Pass::kWeightGradient, stage, weights++});
    if (!forward_first) push_forward();
  }
  while (weights < micro_batches) steps.push_back({Pass::kWeightGradient, stage, weights++});
}

}  // namespace

MadeSchedule zb_h1(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("zb-h1");
  Schedule schedule;
  schedule.ranks.resize(pipeline.room.size());
  for (std::int32_t s = 0; s < stage_count(pipeline); ++s) {
    alternate(schedule.ranks[pipeline.stages[s].rank], s, pipeline.micro_batches, stage_count(pipeline) - 1 - s, s,
              true);
  }
  return schedule;
}

MadeSchedule zb_h2(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("zb-h2");
  Schedule schedule;
  schedule.ranks.resize(pipeline.room.size());
  // With fewer than 2p - 1 micro-batches a weight gradient has less to wait for than 2s others.
  const std::int32_t p = stage_count(pipeline), m = pipeline.micro_batches, beyond = std::max(0, m - p);
  for (std::int32_t s = 0; s < p; ++s) {
    alternate(schedule.ranks[pipeline.stages[s].rank], s, m, 2 * (p - s) - 1, s + std::min(s, beyond), false);
  }
  return schedule;
}

}  // namespace motley
