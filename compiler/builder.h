#pragma once

// Placements become a task graph: for every micro-batch every op's instances on its replicas, the transfers between
// groups that are placed differently, and the gradients' way back.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/pass_order.h"
#include "compiler/placement.h"
#include "compiler/resharder.h"
#include "compiler/synchronizer.h"
#include "compiler/task_writer.h"

namespace motley {

class Builder {
 public:
  // `placements` are those of the micro-batches, in order of samples.
  Builder(const CompilerTables& tables, const Strategy& strategy, std::span<const Placement> placements,
          const PassOrder& order, std::int64_t batch);

  TaskGraph build();

 private:
  // By tensor and device; few tensors need them.
  using Side = std::unordered_map<std::int64_t, NodeId>;
  std::int64_t key(TensorId tensor, DeviceIndex device) const {
    return static_cast<std::int64_t>(tensor) * placement_->seats() + placement_->seat(device);
  }
  const TensorInfo& info(TensorId tensor) const { return tables_.tensors[static_cast<std::size_t>(tensor)]; }
  const Tensor& tensor(TensorId id) const { return tables_.graph.tensors[static_cast<std::size_t>(id)]; }
  // A replica's part in a mean over the batch that is updated by.
  double share(const Replica& replica) const {
    return static_cast<double>(replica.samples()) / static_cast<double>(samples_);
  }

  bool whole() const { return placements_.size() == 1; }
  void begin(std::size_t micro_batch);
  void run_batch(const UpdateBatch& batch);
  void run_early(const UpdateBatch& batch);
  void run(OpId id);
  TaskId instance(OpId id, const Replica& replica);
  bool fetch(OpId id, const Replica& replica);
  bool fetch_gradients(OpId id, const Replica& replica);
  NodeId back(OpId id, NodeId value, const Loan& loan);
  NodeId again(OpId id, NodeId view, const Loan& loan);
  void recompute_for(OpId backward, const Replica& replica);
  void recompute(OpId id, const Replica& replica, std::span<const NodeId> gradients);
  void complete(OpId id, TensorId partial);
  NodeId weighted(OpId id, TensorId partial, const Replica& replica);
  void sum_gradients(OpId id);
  void sum_on(OpId id, std::span<const TensorId> parts, TensorId as, const Replica& replica);
  std::vector<TensorId> presum(OpId id, const std::vector<TensorId>& parts, GroupId home);
  NodeId gradient(OpId id, TensorId gradient, const Replica& replica);
  NodeId seed(OpId id, TensorId gradient, const Replica& replica);
  void gather(OpId id, TensorId total, std::span<const TensorId> parts);
  void complete_gradient(OpId id, TensorId gradient);
  NodeId part_on(TensorId part, DeviceIndex device) const;

  const CompilerTables& tables_;
  const Strategy& strategy_;
  std::span<const Placement> placements_;
  const PassOrder& order_;
  std::int64_t batch_;
  std::int64_t samples_ = 0;    // of the batch that is updated by
  const Placement* placement_;  // of the micro-batch
  std::int32_t micro_batch_ = 0;
  TaskWriter writer_;
  Resharder resharder_;
  Synchronizer synchronizer_;
  std::vector<std::vector<NodeId>> early_;  // by micro-batch: values that were made before all else
  std::vector<char> early_complete_;        // by tensor, as is_complete_
  Side completed_;                          // partial values made whole over their group
  Side gathered_;                           // gradients brought to a holder of what they are gradients of; may be kNone
  std::vector<TaskId> forward_;             // by op and device: where a backward op finds what its forward op kept
  std::vector<char> is_complete_;           // by tensor: completed_ or gathered_ has it
  std::unordered_set<std::int64_t> again_;  // by op and device: forward ops that have run twice
  TaskId first_backward_ = kNone;           // of the micro-batch; kNone: none so far
  std::unordered_map<NodeId, NodeId> back_;  // by value that was lent: the one that came back
  std::vector<NodeId> inputs_;               // of the instance being made
  std::vector<NodeId> outputs_;
};

}  // namespace motley
