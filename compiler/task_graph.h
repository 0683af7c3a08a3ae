#pragma once

// One iteration on all devices, before an order is chosen: values and the tasks that make them. A task is an
// instruction, or the several that happen together: a send with its receive, an all-reduce on all its members. Flat, so
// that a search can make thousands.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "compiler/deployment.h"

namespace motley {

using TaskId = std::int32_t;  // index into TaskGraph::tasks; ascending ids respect data
using NodeId = std::int32_t;  // index into TaskGraph::values

struct TaskValue {
  TensorId tensor = kNone;
  DeviceIndex device = 0;
  std::int64_t begin = 0;  // as in Value
  std::int64_t end = 0;
  std::int64_t bytes = 0;
  NodeId alias_of = kNone;
  TaskId maker = kNone;        // kNone: there from the start
  std::int32_t users = kNone;  // state and weights: head of the list of tasks that used them (TaskWriter)
  bool persistent = false;
};

struct Task {
  InstructionKind kind = InstructionKind::kCompute;  // kSend stands for the pair
  OpId op = kNone;
  DeviceIndex device = 0;  // kSend: from; kAllReduce: unused
  DeviceIndex peer = kNone;
  std::int32_t members = kNone;  // kAllReduce: index into TaskGraph::member_sets
  std::int64_t batch = 0;
  std::int32_t micro_batch = 0;  // compute
  std::int32_t pass = kNone;     // place in the order of its device's passes, or of the peer's that receives it; kNone:
                                 // in no pass
  double scale = 1.0;
  double seconds = 0;
  std::int32_t first_input = 0;  // into TaskGraph::operands; kAllReduce: all inputs of the first member, then of the
  std::int32_t inputs = 0;       // next, and the outputs likewise
  std::int32_t first_output = 0;
  std::int32_t outputs = 0;
};

struct ProgramEdge {  // what a device loads, and its loss
  NodeId value = kNone;
  double weight = 1.0;
};

struct TaskGraph {
  std::vector<TaskValue> values;
  std::vector<Task> tasks;
  std::vector<NodeId> operands;
  std::vector<std::vector<DeviceIndex>> member_sets;
  std::vector<DeviceIndex> everyone;             // whom all member sets stand for, if not for themselves (Folding)
  std::vector<std::pair<TaskId, TaskId>> order;  // first before second, though no value says so
  std::vector<NodeId> inputs;                    // values of Graph::inputs
  std::vector<ProgramEdge> losses;
  std::vector<std::int32_t> passes;  // by device: how many passes it makes, one after the other

  std::span<const NodeId> inputs_of(const Task& task) const {
    return {operands.data() + task.first_input, static_cast<std::size_t>(task.inputs)};
  }
  std::span<const NodeId> outputs_of(const Task& task) const {
    return {operands.data() + task.first_output, static_cast<std::size_t>(task.outputs)};
  }
};

}  // namespace motley
