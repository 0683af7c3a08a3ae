#pragma once

// Brings a tensor, or its samples [begin, end), to the device that needs it. What is there is used as it is; what is
// missing is sent by a replica that has it, once per range and device, and serves whoever needs it there later.

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/placement.h"
#include "compiler/task_writer.h"

namespace motley {

class Resharder {
 public:
  // Placements of all micro-batches have the same devices.
  Resharder(TaskWriter& writer, const Placement& placement);

  // From here on only state and whole inputs are there, and what is `kept`, of the values of this micro-batch.
  void begin(const Placement& placement, std::span<const NodeId> kept);
  // All values put since then, in order.
  std::vector<NodeId> take_values() { return std::move(values_); }

  // Makes a value findable.
  void put(NodeId value);
  // From here on it is the only one of its tensor on its device.
  void set(NodeId value);
  // Any value of the tensor on the device; kNone when there is none.
  NodeId find(TensorId tensor, DeviceIndex device) const;
  // kSplit: exactly the samples [begin, end). State, inputs and others: the device's own, or a copy of the nearest
  // holder's. `op` is the op that needs it. What cannot be cut must be there (Placement saw to it).
  NodeId need(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end, OpId op);
  // The group under whose placement a tensor is made: its home, unless set_maker said otherwise.
  GroupId maker(TensorId tensor) const { return makers_[static_cast<std::size_t>(tensor)]; }
  void set_maker(TensorId tensor, GroupId group) { makers_[static_cast<std::size_t>(tensor)] = group; }
  // Whose copy of a kIndependent tensor `device` uses: its own, or that of the nearest device that makes it.
  DeviceIndex holder(TensorId tensor, DeviceIndex device) const;

 private:
  std::size_t slot(TensorId tensor, DeviceIndex device) const {
    return static_cast<std::size_t>(tensor) * static_cast<std::size_t>(placement_->seats()) +
           static_cast<std::size_t>(placement_->seat(device));
  }
  // The latest such value: what is put later stands for what was there.
  NodeId exact(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end) const;
  NodeId cut(NodeId value, std::int64_t begin, std::int64_t end, OpId op);
  NodeId range(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end, OpId op);
  NodeId piece(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end, OpId op);

  TaskWriter& writer_;
  const Placement* placement_;
  std::vector<GroupId> makers_;  // by tensor
  std::vector<NodeId> values_;   // put since begin()
  std::vector<NodeId> heads_;    // by slot: the latest value put there
  std::vector<NodeId> next_;     // by value: the one put there before it
};

}  // namespace motley
