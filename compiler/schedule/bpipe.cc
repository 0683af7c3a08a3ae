// 1F1B with memory balanced over early and late stages (BPipe: Kim et al., ICML 2023): stages s and p-1-s are partners.
// The earlier one keeps ceil((p + 2)/2) micro-batches at most and lends the others to the later one, which has few of
// its own.

#include <set>

#include "compiler/schedule/kinds.h"

namespace motley {
namespace {

// The steps of a stage with `bound` micro-batches kept at most, two or more: those whose backward pass is furthest away
// go to the peer, and come back a pass before it, so that others are worked on meanwhile.
std::vector<Step> lending(const std::vector<Step>& steps, std::size_t bound, std::int32_t peer) {
  std::vector<Step> all;
  std::vector<std::int32_t> here;  // ascending
  std::set<std::int32_t> away;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const std::int32_t wanted =
        i + 1 < steps.size() && steps[i + 1].pass == Pass::kBackward ? steps[i + 1].micro_batch : -1;
    const bool load = away.erase(wanted) > 0;
    const std::size_t more = (load ? 1 : 0) + (step.pass == Pass::kForward ? 1 : 0);
    while (here.size() + more > bound) {
      all.push_back({.pass = Pass::kEvict, .stage = step.stage, .micro_batch = here.back(), .peer = peer});
      away.insert(here.back());
      here.pop_back();
    }
    if (load) {
      all.push_back({.pass = Pass::kLoad, .stage = step.stage, .micro_batch = wanted, .peer = peer});
      here.insert(std::ranges::upper_bound(here, wanted), wanted);
    }
    all.push_back(step);
    if (step.pass == Pass::kForward) here.push_back(step.micro_batch);
    if (step.pass == Pass::kBackward) std::erase(here, step.micro_batch);
  }
  return all;
}

}  // namespace

MadeSchedule bpipe(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("bpipe");
  const std::int32_t p = stage_count(pipeline);
  Schedule schedule = in_turns(pipeline, one_each(pipeline));
  for (std::int32_t s = 0; s < p - 1 - s; ++s) {
    std::vector<Step>& steps = schedule.ranks[pipeline.stages[s].rank];
    steps = lending(steps, static_cast<std::size_t>(p + 3) / 2, pipeline.stages[p - 1 - s].rank);
  }
  return schedule;
}

}  // namespace motley
