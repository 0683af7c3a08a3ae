// 1F1B on a graph of stages (Jeon et al., 2024): a stage works ahead by the length of its longest way to the loss, not
// by all stages that stand behind it, so branches that run side by side keep less.

#include "compiler/schedule/kinds.h"

namespace motley {

MadeSchedule graphpipe(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("graphpipe");
  std::vector<std::int32_t> in_flight(pipeline.stages.size(), 1);
  for (std::int32_t s = stage_count(pipeline) - 1; s >= 0; --s) {
    for (std::int32_t next : pipeline.stages[s].next) in_flight[s] = std::max(in_flight[s], in_flight[next] + 1);
  }
  return in_turns(pipeline, covering(pipeline, std::move(in_flight)));
}

}  // namespace motley
