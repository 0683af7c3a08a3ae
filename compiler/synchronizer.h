#pragma once

// Ends the iteration: the parts of each parameter's gradient meet, and the parameter is updated wherever it is held.
// A parameter is held by every device of every group that uses it. By all-reduce, in buckets, every holder gets the sum
// and updates; by parameter server, one holder gets the others' parts, updates, and sends the new weights back.

#include <cstdint>
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
               const Strategy& strategy, const GradientParts& gradients);
  void run();

 private:
  struct Bucket {
    std::int32_t holders = 0;  // index into holder_sets_
    DType dtype = DType::kFloat32;
    std::int64_t bytes = 0;
    std::vector<std::int32_t> parameters;  // indices into CompilerTables::parameters
  };
  std::int32_t holders_of(const ParameterInfo& parameter);
  const std::vector<DeviceIndex>& holders(std::int32_t set) const {
    return holder_sets_[static_cast<std::size_t>(set)];
  }
  void choose_servers();
  NodeId local_gradient(std::int32_t parameter, DeviceIndex device);
  NodeId update(const ParameterInfo& parameter, DeviceIndex device, NodeId gradient);
  void add_to_bucket(std::int32_t parameter);
  void reduce(const Bucket& bucket);
  void serve(std::int32_t parameter, DeviceIndex server);

  TaskWriter& writer_;
  Resharder& resharder_;
  std::span<const Placement> placements_;  // of the micro-batches
  const Strategy& strategy_;
  const GradientParts& gradients_;
  const CompilerTables& tables_;
  std::vector<std::vector<DeviceIndex>> holder_sets_;
  std::vector<std::pair<std::vector<GroupId>, std::int32_t>> set_of_users_;  // known answers of holders_of
  std::vector<std::int32_t> sets_;                                           // by parameter: index into holder_sets_
  std::vector<DeviceIndex> servers_;                                         // by parameter; kNone when it has none
  std::vector<Bucket> open_;
};

}  // namespace motley
