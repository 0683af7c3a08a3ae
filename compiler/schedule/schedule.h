#pragma once

// In which order the ranks of a pipeline work on the micro-batches of one iteration. A schedule is a small function
// from the stages and their times to such orders; the compiler takes them as they are. One file each; docs/schedules.md
// draws them.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"

namespace motley {

// A stage, and what it does with one micro-batch. Stages are numbered in topological order.
struct PipelineStage {
  std::int32_t rank = 0;           // of the pipeline: a set of devices that shares each micro-batch. Several stages may
                                   // have the same, as the chunks of an interleaved pipeline do
  std::vector<std::int32_t> next;  // stages that take what it makes, ascending; none: it ends in the loss
  Seconds forward;                 // on the slowest of its devices
  Seconds input_gradient;          // recomputation included
  Seconds weight_gradient;
  Seconds transfer;  // of what it makes to the next stages; gradients come back in the same time
  Bytes kept;        // on its fullest device, from a forward pass to the backward pass
};

struct Pipeline {
  std::vector<PipelineStage> stages;
  std::int32_t micro_batches = 1;
  std::vector<Bytes> room;  // by rank: for what passes keep, on its fullest device
};

enum class Pass : std::uint8_t {
  kForward,
  kBackward,        // both of the next two
  kInputGradient,   // what the stages before wait for
  kWeightGradient,  // any time after it
};

struct Step {
  Pass pass = Pass::kForward;
  std::int32_t stage = 0;
  std::int32_t micro_batch = 0;
  bool operator==(const Step&) const = default;
};

struct Schedule {
  std::vector<std::vector<Step>> ranks;  // by rank, in order
};

struct NotSchedulable {
  std::string reason;  // names what to change
};

// In the order of docs/schedules.md.
std::vector<std::string> schedule_names();
// Throws Error(kInvalidInput) listing the names when there is none like this.
std::variant<Schedule, NotSchedulable> make_schedule(std::string_view name, const Pipeline& pipeline);

}  // namespace motley
