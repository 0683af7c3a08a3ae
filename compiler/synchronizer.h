#pragma once

// Ends a batch: the parts of each parameter's gradient meet, and the parameter is updated wherever it is held.
// A parameter is held by every device of every group that uses it. By all-reduce, in buckets, every holder gets the sum
// and updates; by parameter server, one holder gets the others' parts, updates, and sends the new weights back.
//
// Where the schedule updates between micro-batches, weights are versions, numbered by the updates that they have had. A
// new one is written over the one before it if no micro-batch to come takes that; else into the state, if nobody to
// come takes what is there; else into a copy. The last of the iteration is in the state.

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "compiler/pass_order.h"
#include "compiler/placement.h"
#include "compiler/resharder.h"
#include "compiler/task_writer.h"

namespace motley {

// What the micro-batches' backward ops found of each parameter's gradient, by device.
class GradientParts {
 public:
  GradientParts(const CompilerTables& tables, const PassOrder& order)
      : tables_(tables), order_(order), parts_(tables.parameters.size()) {}

  // Adds those of a micro-batch.
  void add(const Resharder& resharder, const Placement& placement, std::int32_t micro_batch);
  void clear();
  // Of a parameter (index into CompilerTables::parameters), in the order in which the device makes them.
  std::vector<NodeId> of(std::int32_t parameter, DeviceIndex device) const;

 private:
  struct Part {
    DeviceIndex device = 0;
    std::int32_t pass = kNone;
    NodeId value = kNone;
  };
  const CompilerTables& tables_;
  const PassOrder& order_;
  std::vector<std::vector<Part>> parts_;  // by parameter
};

class Synchronizer {
 public:
  Synchronizer(TaskWriter& writer, Resharder& resharder, std::span<const Placement> placements,
               const Strategy& strategy, const PassOrder& order);

  // Before the micro-batch's ops: they find the versions that it takes.
  void begin(std::int32_t micro_batch);
  // After them: its gradients.
  void add(const Placement& placement, std::int32_t micro_batch) { gradients_.add(resharder_, placement, micro_batch); }
  // After the last micro-batch of a batch.
  void update(std::size_t batch);

 private:
  struct Bucket {
    std::int32_t holders = 0;  // index into holder_sets_
    DType dtype = DType::kFloat32;
    std::int64_t bytes = 0;
    std::vector<std::int32_t> parameters;  // indices into CompilerTables::parameters
  };
  struct Weights {                 // of a parameter on a device
    std::vector<NodeId> versions;  // the first one is the state
    std::int32_t in_state = 0;     // the one that is there now
  };
  std::int32_t holders_of(const ParameterInfo& parameter);
  const std::vector<DeviceIndex>& holders(std::int32_t set) const {
    return holder_sets_[static_cast<std::size_t>(set)];
  }
  void choose_servers();
  NodeId local_gradient(std::int32_t parameter, DeviceIndex device);
  Weights& weights_of(std::int32_t parameter, DeviceIndex device);
  bool last_batch() const { return batch_ + 1 == order_.batches().size(); }
  // By a micro-batch to come.
  bool is_taken(std::int32_t parameter, std::int32_t version) const;
  NodeId copy(std::int32_t parameter, NodeId weights, NodeId into = kNone);
  NodeId writable(std::int32_t parameter, DeviceIndex device);
  NodeId update(std::int32_t parameter, DeviceIndex device, NodeId gradient);
  void send_back(std::int32_t parameter, NodeId updated, DeviceIndex device);
  void add_to_bucket(std::int32_t parameter);
  void reduce(const Bucket& bucket);
  void serve(std::int32_t parameter, DeviceIndex server);

  TaskWriter& writer_;
  Resharder& resharder_;
  std::span<const Placement> placements_;  // of the micro-batches
  const Strategy& strategy_;
  const PassOrder& order_;
  const CompilerTables& tables_;
  GradientParts gradients_;
  std::size_t batch_ = 0;
  std::vector<std::map<DeviceIndex, Weights>> weights_;  // by parameter; none before the first update
  std::vector<std::vector<DeviceIndex>> holder_sets_;
  std::vector<std::pair<std::vector<GroupId>, std::int32_t>> set_of_users_;  // known answers of holders_of
  std::vector<std::int32_t> sets_;                                           // by parameter: index into holder_sets_
  std::vector<DeviceIndex> servers_;                                         // by parameter; kNone when it has none
  std::vector<Bucket> open_;
};

}  // namespace motley
