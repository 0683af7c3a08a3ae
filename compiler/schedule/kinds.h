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

// Those that speak of a chain take the stages of a graph in their order: what waits for nothing in a chain waits for
// nothing in a graph, whose stages wait for fewer others.
MadeSchedule gpipe(const Pipeline& pipeline);
MadeSchedule one_f_one_b(const Pipeline& pipeline);
MadeSchedule pipedream_flush(const Pipeline& pipeline);
MadeSchedule interleaved(const Pipeline& pipeline);
MadeSchedule zb_h1(const Pipeline& pipeline);
MadeSchedule zb_h2(const Pipeline& pipeline);
MadeSchedule zb_v(const Pipeline& pipeline);
MadeSchedule chimera(const Pipeline& pipeline);
MadeSchedule bpipe(const Pipeline& pipeline);
MadeSchedule pipedream(const Pipeline& pipeline);
MadeSchedule pipedream_2bw(const Pipeline& pipeline);
MadeSchedule graphpipe(const Pipeline& pipeline);

inline std::int32_t stage_count(const Pipeline& pipeline) { return static_cast<std::int32_t>(pipeline.stages.size()); }
inline std::int32_t rank_count(const Pipeline& pipeline) { return static_cast<std::int32_t>(pipeline.room.size()); }
inline bool one_stage_per_rank(const Pipeline& pipeline) { return stage_count(pipeline) == rank_count(pipeline); }
inline NotSchedulable needs_one_stage_per_rank(const std::string& name) {
  return {name +
          " has one stage on each set of devices: give every stage devices of its own, or choose "
          "interleaved-1f1b or gpipe"};
}
// Of a stage that a schedule wants on the rank of another one: stages 0 to p - 1 are on ranks of their own.
inline NotSchedulable stands_elsewhere(const std::string& rule, std::int32_t stage, std::int32_t wanted) {
  return {rule + (stage == wanted
                      ? ": give stage " + std::to_string(stage) + " devices that no stage before it has"
                      : ": put stage " + std::to_string(stage) + " on the devices of stage " + std::to_string(wanted))};
}

// By stage, how many micro-batches are under way from it to the end of a chain when each stage holds one: p - s.
std::vector<std::int32_t> one_each(const Pipeline& pipeline);

// Warm-up, then one forward and one backward pass in turns: by stage, how many micro-batches are between the two at
// most. No rank waits for another for ever unless a stage has more than one before it.
Schedule in_turns(const Pipeline& pipeline, const std::vector<std::int32_t>& in_flight);

// `in_flight`, from the least that a stage needs: raised to cover the time that micro-batches spend on links, cut to
// what `room` holds, and nowhere more than at an earlier stage.
std::vector<std::int32_t> covering(const Pipeline& pipeline, std::vector<std::int32_t> in_flight);

}  // namespace motley
