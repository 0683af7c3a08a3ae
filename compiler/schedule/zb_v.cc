// Zero bubble with two chunks per rank in the shape of a V (Qi et al., ICLR 2024): rank r has stages r and 2p-1-r, so
// the loss is where the input is. No bubble where all passes take as long, with the memory of 1F1B.

#include <array>

#include "compiler/schedule/kinds.h"

namespace motley {
namespace {

struct Turn {
  Pass pass;
  std::int32_t chunk;  // 0: on the way down, 1: on the way up
};

class VShape {
 public:
  VShape(const Pipeline& pipeline, std::int32_t rank)
      : stages_{rank, stage_count(pipeline) - 1 - rank}, micro_batches_(pipeline.micro_batches) {}

  void repeat(std::int32_t times, std::initializer_list<Turn> turns) {
    for (std::int32_t i = 0; i < times; ++i) {
      for (const Turn& turn : turns) push(turn);
    }
  }
  std::vector<Step> take() { return std::move(steps_); }

 private:
  // What all micro-batches have had is left out.
  void push(const Turn& turn) {
    std::int32_t& next = next_[static_cast<std::size_t>(turn.pass)][turn.chunk];
    if (next < micro_batches_) steps_.push_back({turn.pass, stages_[turn.chunk], next++});
  }

  std::array<std::int32_t, 2> stages_;
  std::int32_t micro_batches_;
  std::array<std::array<std::int32_t, 2>, 4> next_{};  // by pass and chunk: the next micro-batch
  std::vector<Step> steps_;
};

}  // namespace

MadeSchedule zb_v(const Pipeline& pipeline) {
  const std::int32_t p = rank_count(pipeline), m = pipeline.micro_batches;
  const std::string rule = "zb-v has two stages on each set of devices, the first with the last, and so on";
  if (stage_count(pipeline) != 2 * p) {
    return NotSchedulable{rule + ": for " + std::to_string(p) + " sets make " + std::to_string(2 * p) + " stages"};
  }
  for (std::int32_t s = 0; s < 2 * p; ++s) {
    const std::int32_t wanted = std::min(s, 2 * p - 1 - s);
    if (pipeline.stages[s].rank != wanted) return stands_elsewhere(rule, s, wanted);
  }
  constexpr Turn kF0{Pass::kForward, 0}, kF1{Pass::kForward, 1};
  constexpr Turn kB0{Pass::kInputGradient, 0}, kB1{Pass::kInputGradient, 1};
  constexpr Turn kW0{Pass::kWeightGradient, 0}, kW1{Pass::kWeightGradient, 1};
  Schedule schedule;
  for (std::int32_t r = 0; r < p; ++r) {
    VShape rank(pipeline, r);
    rank.repeat(2 * (p - r) - 1, {kF0});
    rank.repeat(r, {kF1, kF0});
    rank.repeat(p - r, {kF1, kB1, kW1});
    rank.repeat(m - p, {kF0, kB0, kW0, kF1, kB1, kW1});
    rank.repeat(r, {kB0, kB1});
    rank.repeat(p - r, {kB0, kW0});
    rank.repeat(r, {kW1, kW0});
    schedule.ranks.push_back(rank.take());
  }
  return schedule;
}

}  // namespace motley
