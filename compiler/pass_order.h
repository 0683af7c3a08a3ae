#pragma once

// The stages of a strategy as a schedule sees them, and the order of passes that it gives to every device.

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "compiler/compiler.h"
#include "compiler/placement.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tables.h"

namespace motley {

// What the schedule is given: times and bytes of the first micro-batch. Ranks are the sets of devices that stages have;
// stages that share a device are of one rank.
Pipeline pipeline_of(const CompilerTables& tables, const Strategy& strategy, const Placement& placement);

// Whether a forward op keeps nothing for its backward ops, but runs again before them.
bool runs_again(const CompilerTables& tables, const Strategy& strategy, OpId op);

// Of the micro-batches into which a batch is divided, the first ones have one sample more where it must be.
std::int64_t samples_of(std::int32_t micro_batch, const Strategy& strategy, std::int64_t batch);

// Micro-batches [begin, end), whose gradients one update takes.
struct UpdateBatch {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

// What a device keeps of a micro-batch is on another one from its forward pass on, and comes back when the device is in
// the pass at that place.
struct Loan {
  DeviceIndex to = kNone;
  std::int32_t back = kNone;
};

class PassOrder {
 public:
  // Of a strategy with one micro-batch: no passes, so that each device's order is free.
  static std::variant<PassOrder, NotCompilable> make(const CompilerTables& tables, const Strategy& strategy,
                                                     const Placement& placement);

  // The place, in its device's order, of the pass that an op on a micro-batch belongs to; kNone: in no pass, it runs as
  // soon as its inputs are there.
  std::int32_t place(OpId op, std::int32_t micro_batch) const;
  // Of a forward op that runs again: it does so in the backward pass.
  std::int32_t place_again(OpId op, std::int32_t micro_batch) const;
  // All micro-batches are one batch, unless the schedule updates in between.
  const std::vector<UpdateBatch>& batches() const { return batches_; }
  // How many updates a parameter has had in this iteration when a micro-batch takes it: as many as the schedule says of
  // its stage, and of the one that is furthest behind where several use it.
  std::int32_t version(const ParameterInfo& parameter, std::int32_t micro_batch) const;
  // The place of its update; kNone also where several stages use it, none of which is to wait for the others.
  std::int32_t place_update(const ParameterInfo& parameter, std::size_t batch) const;
  // Of what the op's stage keeps; nothing when it keeps it itself.
  std::optional<Loan> loan(OpId op, std::int32_t micro_batch, DeviceIndex device) const;
  // By device; empty when there are none.
  const std::vector<std::int32_t>& passes() const { return passes_; }

  // A schedule may have a micro-batch's passes elsewhere than where the strategy has their stage: by stage, the rank.
  // Empty when there are no passes.
  std::vector<std::int32_t> ranks(std::int32_t micro_batch) const;
  bool at_home(std::int32_t micro_batch) const { return ranks(micro_batch) == home_; }
  // The strategy as it holds for that micro-batch.
  Strategy placed(std::int32_t micro_batch) const;

 private:
  enum Part : std::uint8_t { kForward, kInputGradient, kWeightGradient, kUpdate, kParts };
  PassOrder(const CompilerTables& tables, const Strategy& strategy) : tables_(tables), strategy_(strategy) {}
  void add(const Step& step, std::int32_t rank, std::int32_t place);
  std::int32_t stage_of(GroupId group) const { return strategy_.groups[static_cast<std::size_t>(group)].stage; }
  std::int32_t place(std::int32_t stage, std::int32_t micro_batch, Part part) const;
  std::size_t at_pass(std::int32_t stage, std::int32_t micro_batch) const {
    return static_cast<std::size_t>(stage * strategy_.micro_batches + micro_batch);
  }
  std::size_t at_part(std::int32_t stage, std::int32_t micro_batch, Part part) const {
    return at_pass(stage, micro_batch) * kParts + part;
  }

  const CompilerTables& tables_;
  const Strategy& strategy_;
  std::vector<UpdateBatch> batches_;
  std::vector<std::int32_t> places_;               // by stage, micro-batch and part; of an update, its last micro-batch
  std::vector<std::int32_t> versions_;             // by stage and micro-batch
  std::vector<std::int32_t> lent_to_;              // by stage and micro-batch: a rank; kNone
  std::vector<std::int32_t> back_;                 // by stage and micro-batch: the place where it is loaded
  std::vector<std::vector<DeviceIndex>> devices_;  // by rank, ascending
  std::vector<std::int32_t> passes_;
  std::vector<std::int32_t> home_;   // by stage: its rank
  std::vector<std::int32_t> ranks_;  // by stage and micro-batch
};

}  // namespace motley
