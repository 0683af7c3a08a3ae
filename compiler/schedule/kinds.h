#pragma once

// The schedules, and what several of them need.

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/schedule/schedule.h"

namespace motley {

using MadeSchedule = std::variant<Schedule, NotSchedulable>;

MadeSchedule gpipe(const Pipeline& pipeline);
MadeSchedule one_f_one_b(const Pipeline& pipeline);
MadeSchedule interleaved(const Pipeline& pipeline);
MadeSchedule zb_h1(const Pipeline& pipeline);
MadeSchedule zb_h2(const Pipeline& pipeline);
MadeSchedule zb_v(const Pipeline& pipeline);
MadeSchedule chimera(const Pipeline& pipeline);
MadeSchedule graphpipe(const Pipeline& pipeline);

inline std::int32_t stage_count(const Pipeline& pipeline) { return static_cast<std::int32_t>(pipeline.stages.size()); }
inline std::int32_t rank_count(const Pipeline& pipeline) { return static_cast<std::int32_t>(pipeline.room.size()); }
inline bool one_stage_per_rank(const Pipeline& pipeline) { return stage_count(pipeline) == rank_count(pipeline); }
inline NotSchedulable needs_one_stage_per_rank(const std::string& name) {
  return {name +
          " has one stage on each set of devices: give every stage devices of its own, or choose "
          "interleaved-1f1b or gpipe"};
}

// Warm-up, then one forward and one backward pass in turns: by stage, how many micro-batches are between the two at
// most. Ranks do not wait for each other when no stage has more than one before it.
Schedule in_turns(const Pipeline& pipeline, const std::vector<std::int32_t>& in_flight);

// `in_flight`, from the least that a stage needs: raised to what covers the time from a micro-batch's forward pass to
// its gradient's return, cut to what `room` holds, and nowhere more than at an earlier stage.
std::vector<std::int32_t> covering(const Pipeline& pipeline, std::vector<std::int32_t> in_flight);

}  // namespace motley
