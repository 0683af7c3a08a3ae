// 1F1B over several chunks of the model per rank (Narayanan et al., SC 2021), as Megatron-LM orders them: micro-batches
// go in groups of as many as there are ranks, a group through all chunks of a rank before the next group begins. The
// last group may have fewer.

#include "compiler/schedule/kinds.h"
#include "compiler/schedule/play.h"

namespace motley {
namespace {

class Interleaver {
 public:
  explicit Interleaver(const Pipeline& pipeline)
      : ranks_(rank_count(pipeline)), chunks_(stage_count(pipeline) / ranks_), micro_batches_(pipeline.micro_batches) {}

  // `more` passes of warm-up beyond Megatron-LM's.
  Schedule make(std::int32_t more) const {
    Schedule schedule;
    for (std::int32_t rank = 0; rank < ranks_; ++rank) {
      const std::vector<Step> forward = passes(rank, Pass::kForward), backward = passes(rank, Pass::kBackward);
      const auto all = static_cast<std::int32_t>(forward.size());
      const bool one_group = micro_batches_ == ranks_;
      const std::int32_t ahead = 2 * (ranks_ - rank - 1) + (chunks_ - 1) * ranks_ + more;
      const std::int32_t warm_up = one_group ? all : std::min(all, ahead);
      std::vector<Step>& steps = schedule.ranks.emplace_back(forward.begin(), forward.begin() + warm_up);
      for (std::int32_t i = 0; i < all; ++i) {
        if (warm_up + i < all) steps.push_back(forward[warm_up + i]);
        steps.push_back(backward[i]);
      }
    }
    return schedule;
  }

 private:
  std::vector<Step> passes(std::int32_t rank, Pass pass) const {
    std::vector<Step> steps;
    for (std::int32_t first = 0; first < micro_batches_; first += ranks_) {
      for (std::int32_t c = 0; c < chunks_; ++c) {
        const std::int32_t chunk = pass == Pass::kForward ? c : chunks_ - 1 - c;
        for (std::int32_t m = first; m < std::min(first + ranks_, micro_batches_); ++m) {
          steps.push_back({pass, chunk * ranks_ + rank, m});
        }
      }
    }
    return steps;
  }

  std::int32_t ranks_, chunks_, micro_batches_;
};

}  // namespace

MadeSchedule interleaved(const Pipeline& pipeline) {
  const std::int32_t ranks = rank_count(pipeline);
  for (std::int32_t s = 0; s < stage_count(pipeline); ++s) {
    if (pipeline.stages[s].rank == s % ranks && stage_count(pipeline) % ranks == 0) continue;
    return NotSchedulable{"interleaved-1f1b deals stages out to the sets of devices in turns, as many to each: stage " +
                          std::to_string(s) + " stands elsewhere"};
  }
  // A last group that is not whole may need some more ahead, all of them at most.
  const Interleaver interleaver(pipeline);
  for (std::int32_t more = 0;; ++more) {
    Schedule schedule = interleaver.make(more);
    if (play(schedule, pipeline).ends) return schedule;
  }
}

}  // namespace motley
