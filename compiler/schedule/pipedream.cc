// Updates that do not wait for the pipeline to drain: a micro-batch's two passes take the same weights of a stage,
// which so keeps older versions of them. PipeDream (Narayanan et al., SOSP 2019) updates a stage after each backward
// pass; PipeDream-2BW (Narayanan et al., ICML 2021) after a batch of micro-batches, and needs two versions.

#include <functional>

#include "compiler/schedule/kinds.h"

namespace motley {
namespace {

// By micro-batch, its batch: `batches` of them, the first ones with a micro-batch more where it must be.
std::vector<std::int32_t> batch_of(std::int32_t micro_batches, std::int32_t batches) {
  std::vector<std::int32_t> of;
  for (std::int32_t batch = 0; batch < batches; ++batch) {
    of.insert(of.end(), micro_batches / batches + (batch < micro_batches % batches ? 1 : 0), batch);
  }
  return of;
}

// 1F1B with an update of each stage after each batch. `version`: of the weights that a micro-batch takes, by its batch
// and the updates that the stage has had.
Schedule updating(const Pipeline& pipeline, std::int32_t batches,
                  const std::function<std::int32_t(std::int32_t, std::int32_t)>& version) {
  const std::vector<std::int32_t> batch = batch_of(pipeline.micro_batches, batches);
  Schedule schedule = in_turns(pipeline, one_each(pipeline));
  for (std::vector<Step>& steps : schedule.ranks) {
    std::vector<Step> all;
    std::int32_t updates = 0;
    for (Step step : steps) {
      const auto m = static_cast<std::size_t>(step.micro_batch);
      if (step.pass == Pass::kForward) step.version = version(batch[m], updates);
      all.push_back(step);
      const bool last = m + 1 == batch.size() || batch[m + 1] != batch[m];
      if (step.pass != Pass::kBackward || !last) continue;
      all.push_back({.pass = Pass::kUpdate, .stage = step.stage, .micro_batch = step.micro_batch});
      ++updates;
    }
    steps = std::move(all);
  }
  return schedule;
}

}  // namespace

// Each micro-batch is a batch, and takes the newest weights.
MadeSchedule pipedream(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("pipedream");
  return updating(pipeline, pipeline.micro_batches, [](std::int32_t, std::int32_t updates) { return updates; });
}

// Batches of p micro-batches or more: in smaller ones the first forward passes would come before the update that they
// take. On every stage a batch lacks just the update of the batch before it.
MadeSchedule pipedream_2bw(const Pipeline& pipeline) {
  if (!one_stage_per_rank(pipeline)) return needs_one_stage_per_rank("pipedream-2bw");
  return updating(pipeline, std::max(1, pipeline.micro_batches / stage_count(pipeline)),
                  [](std::int32_t batch, std::int32_t) { return std::max(0, batch - 1); });
}

}  // namespace motley
