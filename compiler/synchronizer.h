#pragma once

// Ends the iteration: the parts of each parameter's gradient meet, and the parameter is updated wherever it is held.
// A parameter is held by every device of every group that uses it. By all-reduce, in buckets, every holder gets the sum
// and updates; by parameter server, one holder gets the others' parts, updates, and sends the new weights back.

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/placement.h"
#include "compiler/resharder.h"
#include "compiler/task_writer.h"

namespace motley {

class Synchronizer {
 public:
  Synchronizer(TaskWriter& writer, Resharder& resharder, const Placement& placement, const Strategy& strategy);
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
  NodeId local_gradient(const ParameterInfo& parameter, DeviceIndex device);
  NodeId update(const ParameterInfo& parameter, DeviceIndex device, NodeId gradient);
  void add_to_bucket(std::int32_t parameter);
  void reduce(const Bucket& bucket);
  void serve(const ParameterInfo& parameter, std::int32_t set, DeviceIndex server);

  TaskWriter& writer_;
  Resharder& resharder_;
  const Placement& placement_;
  const Strategy& strategy_;
  const CompilerTables& tables_;
  std::vector<std::vector<DeviceIndex>> holder_sets_;
  std::vector<std::pair<std::vector<GroupId>, std::int32_t>> set_of_users_;  // known answers of holders_of
  std::vector<std::int32_t> sets_;                                           // by parameter: index into holder_sets_
  std::vector<DeviceIndex> servers_;                                         // by parameter; kNone when it has none
  std::vector<Bucket> open_;
};

}  // namespace motley
