// One forward, one backward (PipeDream-Flush: Narayanan et al., ICML 2021; DAPPLE: Fan et al., PPoPP 2021). Stage s of
// p works ahead by p - s micro-batches, by more where links are slow (as HARP does, 2026).

#include <cmath>
#include <numeric>

#include "compiler/schedule/kinds.h"

namespace motley {

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
  const auto work = [](const PipelineStage& stage) {
    return (stage.forward + stage.input_gradient + stage.weight_gradient).value;
  };
  double period = 0;  // no rank can begin micro-batches more often
  for (const PipelineStage& stage : pipeline.stages) period = std::max(period, work(stage));
  // From a micro-batch's arrival at a stage until its gradient leaves: while it is away, others fill the time.
  std::vector<double> stay(pipeline.stages.size());
  for (std::int32_t s = stage_count(pipeline) - 1; s >= 0; --s) {
    const PipelineStage& stage = pipeline.stages[s];
    for (std::int32_t next : stage.next) stay[s] = std::max(stay[s], stay[next] + 2 * stage.transfer.value);
    stay[s] += work(stage);
    constexpr double kRounding = 1e-9;
    if (period > 0) {
      in_flight[s] = std::max(in_flight[s], static_cast<std::int32_t>(std::ceil(stay[s] / period - kRounding)));
    }
    for (std::int32_t next : stage.next) in_flight[s] = std::max(in_flight[s], in_flight[next]);
  }
  for (std::int32_t s = 0; s < stage_count(pipeline); ++s) {
    const PipelineStage& stage = pipeline.stages[s];
    std::int64_t most = pipeline.micro_batches;
    if (stage.kept.value > 0) most = std::min(most, pipeline.room[stage.rank].value / stage.kept.value);
    in_flight[s] = std::max<std::int32_t>(1, std::min<std::int32_t>(in_flight[s], static_cast<std::int32_t>(most)));
    for (std::int32_t next : stage.next) in_flight[next] = std::min(in_flight[next], in_flight[s]);
  }
  return in_flight;
}

MadeSchedule one_f_one_b(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("1f1b");
  std::vector<std::int32_t> in_flight(pipeline.stages.size());
  std::iota(in_flight.rbegin(), in_flight.rend(), 1);
  return in_turns(pipeline, covering(pipeline, std::move(in_flight)));
}

}  // namespace motley
