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
  kUpdate,          // of the stage's weights, by the gradients of the micro-batches since its last update: they are a
                    // batch of their own, the same on all stages. A schedule without: the iteration is one batch,
                    // updated when all is done
  kEvict,           // what the micro-batch keeps goes to `peer` ...
  kLoad,            // ... and comes back, before the backward pass
};

struct Step {
  Pass pass = Pass::kForward;
  std::int32_t stage = 0;
  std::int32_t micro_batch = 0;  // kUpdate: the last one whose gradient it takes
  std::int32_t version = 0;      // kForward: its weights have had so many updates in this iteration; the backward pass
                                 // takes the same
  std::int32_t peer = -1;        // kEvict, kLoad: a rank
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
// ... of which these take weights that lack no update, and so train as one device does.
std::vector<std::string> synchronous_schedules();
// Throws Error(kInvalidInput) listing the names when there is none like this.
std::variant<Schedule, NotSchedulable> make_schedule(std::string_view name, const Pipeline& pipeline);

}  // namespace motley
