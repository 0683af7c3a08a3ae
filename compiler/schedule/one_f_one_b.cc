// One forward, one backward (PipeDream-Flush: Narayanan et al., ICML 2021; DAPPLE: Fan et al., PPoPP 2021). Stage s of
// p works ahead by p - s micro-batches, by more where links are slow (as HARP does, 2026).

#include <cmath>
#include <numeric>

#include "compiler/schedule/kinds.h"
#include "compiler/schedule/play.h"

namespace motley {
namespace {

// How many micro-batches have room on a stage's rank; one at least, or nothing could be done.
std::int32_t fitting(const PipelineStage& stage, const Pipeline& pipeline) {
  std::int64_t most = pipeline.micro_batches;
  if (stage.kept.value > 0) {
    most = std::min(most, pipeline.room[static_cast<std::size_t>(stage.rank)].value / stage.kept.value);
  }
  return std::max(1, static_cast<std::int32_t>(most));
}

// A stage with more under way than one before it would wait for ever.
void lower_after(std::vector<std::int32_t>& in_flight, const Pipeline& pipeline) {
  for (std::size_t s = 0; s < in_flight.size(); ++s) {
    for (std::int32_t next : pipeline.stages[s].next) in_flight[next] = std::min(in_flight[next], in_flight[s]);
  }
}

// Where an earlier stage lets few micro-batches in, a later one that waits for many before its first backward pass
// holds up all. The clock says how many are best, from the last stage on.
std::vector<std::int32_t> best_below(std::vector<std::int32_t> in_flight, const Pipeline& pipeline) {
  Seconds best = play(in_turns(pipeline, in_flight), pipeline).length;
  for (std::int32_t s = stage_count(pipeline) - 1; s >= 0; --s) {
    std::vector<std::int32_t> lower = in_flight;
    while (--lower[s] > 0) {
      lower_after(lower, pipeline);
      const Seconds length = play(in_turns(pipeline, lower), pipeline).length;
      if (length < best) {
        best = length;
        in_flight = lower;
      }
    }
  }
  return in_flight;
}

}  // namespace

std::vector<std::int32_t> one_each(const Pipeline& pipeline) {
  std::vector<std::int32_t> in_flight(pipeline.stages.size());
  std::iota(in_flight.rbegin(), in_flight.rend(), 1);
  return in_flight;
}

Schedule in_turns(const Pipeline& pipeline, const std::vector<std::int32_t>& in_flight) {
  Schedule schedule;
  schedule.ranks.resize(pipeline.room.size());
  for (std::int32_t stage = 0; stage < stage_count(pipeline); ++stage) {
    auto& steps = schedule.ranks[pipeline.stages[stage].rank];
    std::int32_t forward = 0;
    for (std::int32_t backward = 0; backward < pipeline.micro_batches; ++backward) {
      while (forward < std::min(pipeline.micro_batches, backward + in_flight[stage])) {
        steps.push_back({Pass::kForward, stage, forward++});
      }
      steps.push_back({Pass::kBackward, stage, backward});
    }
  }
  return schedule;
}

std::vector<std::int32_t> covering(const Pipeline& pipeline, std::vector<std::int32_t> in_flight) {
  Seconds period;  // no stage can begin micro-batches more often than the slowest
  for (const PipelineStage& stage : pipeline.stages) {
    period = std::max(period, stage.forward + stage.input_gradient + stage.weight_gradient);
  }
  for (std::int32_t s = stage_count(pipeline) - 1; s >= 0; --s) {
    const PipelineStage& stage = pipeline.stages[s];
    // So many begin while one is on the link and its gradient on the way back. What would wait for less than a
    // twentieth of a period is not worth the memory.
    constexpr double kNegligible = 0.05;
    const double on_link = period > Seconds() ? std::ceil(2 * stage.transfer / period - kNegligible) : 0;
    for (std::int32_t next : stage.next) {
      const double all = std::min<double>(in_flight[next] + 1 + on_link, pipeline.micro_batches);
      in_flight[s] = std::max(in_flight[s], static_cast<std::int32_t>(all));
    }
  }
  bool cut = false;
  for (std::int32_t s = 0; s < stage_count(pipeline); ++s) {
    const std::int32_t most = fitting(pipeline.stages[s], pipeline);
    cut |= most < std::min(in_flight[s], pipeline.micro_batches);
    in_flight[s] = std::min(in_flight[s], most);
  }
  lower_after(in_flight, pipeline);
  return cut ? best_below(std::move(in_flight), pipeline) : in_flight;
}

MadeSchedule one_f_one_b(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("1f1b");
  return in_turns(pipeline, covering(pipeline, one_each(pipeline)));
}

}  // namespace motley
