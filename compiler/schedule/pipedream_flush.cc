// 1F1B as PipeDream-Flush says it (Narayanan et al., ICML 2021) and Megatron-LM and DeepSpeed run it: stage s of p
// works ahead by p - s micro-batches, whatever its links and its memory are like. To predict what these do.

#include "compiler/schedule/kinds.h"

namespace motley {

MadeSchedule pipedream_flush(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("pipedream-flush");
  return in_turns(pipeline, one_each(pipeline));
}

}  // namespace motley
