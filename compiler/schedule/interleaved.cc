// 1F1B over several chunks of the model per rank (Narayanan et al., SC 2021), as Megatron-LM orders them: micro-batches
// go in groups of as many as there are ranks, a group through all chunks of a rank before the next group begins.

#include "compiler/schedule/kinds.h"

namespace motley {
namespace {

// A rank's passes of one kind, for micro-batches in whole groups.
std::vector<Step> passes(const Pipeline& pipeline, std::int32_t rank, Pass pass, std::int32_t micro_batches) {
  const std::int32_t ranks = rank_count(pipeline), chunks = stage_count(pipeline) / ranks;
  std::vector<Step> steps;
  for (std::int32_t first = 0; first < micro_batches; first += ranks) {
    for (std::int32_t c = 0; c < chunks; ++c) {
      const std::int32_t chunk = pass == Pass::kForward ? c : chunks - 1 - c;
      for (std::int32_t m = first; m < first + ranks; ++m) steps.push_back({pass, chunk * ranks + rank, m});
    }
  }
  return steps;
}

}  // namespace

MadeSchedule interleaved(const Pipeline& pipeline) {
  const std::int32_t ranks = rank_count(pipeline), chunks = stage_count(pipeline) / ranks;
  if (stage_count(pipeline) % ranks != 0) {
    return NotSchedulable{
        "interleaved-1f1b has as many stages on each set of devices: " + std::to_string(stage_count(pipeline)) +
        " stages on " + std::to_string(ranks) + " sets do not divide; make " + std::to_string(chunks * ranks) + " or " +
        std::to_string((chunks + 1) * ranks)};
  }
  for (std::int32_t s = 0; s < stage_count(pipeline); ++s) {
    if (pipeline.stages[s].rank != s % ranks) {
      return stands_elsewhere("interleaved-1f1b deals stages out to the sets of devices in turns", s, s % ranks);
    }
  }
  // The last group is filled up with micro-batches that do not exist; without them the others' order stays sound.
  const std::int32_t groups = (pipeline.micro_batches + ranks - 1) / ranks;
  Schedule schedule;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<Step> forward = passes(pipeline, rank, Pass::kForward, groups * ranks);
    const std::vector<Step> backward = passes(pipeline, rank, Pass::kBackward, groups * ranks);
    const auto all = static_cast<std::int32_t>(forward.size());
    const std::int32_t ahead = 2 * (ranks - rank - 1) + (chunks - 1) * ranks;
    const std::int32_t warm_up = groups == 1 ? all : std::min(all, ahead);
    std::vector<Step>& steps = schedule.ranks.emplace_back(forward.begin(), forward.begin() + warm_up);
    for (std::int32_t i = 0; i < all; ++i) {
      if (warm_up + i < all) steps.push_back(forward[warm_up + i]);
      steps.push_back(backward[i]);
    }
    std::erase_if(steps, [&](const Step& step) { return step.micro_batch >= pipeline.micro_batches; });
  }
  return schedule;
}

}  // namespace motley
