#pragma once

// Writes a task graph: one method per kind of instruction, which makes the task with its cost and its output values.

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/tables.h"
#include "compiler/task_graph.h"

namespace motley {

class TaskWriter {
 public:
  // `everyone`: as in TaskGraph.
  explicit TaskWriter(const CompilerTables& tables, std::vector<DeviceIndex> everyone = {});

  const CompilerTables& tables() const { return tables_; }
  const TaskValue& at(NodeId value) const { return graph_.values[static_cast<std::size_t>(value)]; }
  // The value whose storage it has: itself, when it is no alias.
  NodeId storage_of(NodeId value) const { return at(value).alias_of == kNone ? value : at(value).alias_of; }

  // A value that a task is about to make. `samples` sizes it; a range is kept for kSplit tensors.
  NodeId add_value(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end, NodeId alias_of = kNone);
  NodeId add_state(TensorId tensor, DeviceIndex device);
  NodeId add_input(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end);

  // Of the micro-batch that was begun last.
  TaskId compute(OpId op, DeviceIndex device, std::int64_t batch, std::span<const NodeId> inputs,
                 std::span<const NodeId> outputs);
  void begin_micro_batch(std::int32_t micro_batch) { micro_batch_ = micro_batch; }
  TaskId next_task() const { return static_cast<TaskId>(graph_.tasks.size()); }
  const Task& task(TaskId id) const { return graph_.tasks[static_cast<std::size_t>(id)]; }
  std::vector<NodeId> inputs_of(TaskId id) const;
  std::vector<NodeId> outputs_of(TaskId id) const;
  std::int32_t pass_of(TaskId task) const { return graph_.tasks[static_cast<std::size_t>(task)].pass; }
  void set_pass(TaskId task, std::int32_t pass) { graph_.tasks[static_cast<std::size_t>(task)].pass = pass; }
  NodeId slice(OpId op, NodeId input, std::int64_t begin, std::int64_t end);
  NodeId concat(OpId op, std::span<const NodeId> parts);
  NodeId sum(OpId op, std::span<const NodeId> parts, TensorId as);
  NodeId add_to(OpId op, NodeId total, NodeId part);  // in place
  // Into the storage of `into` when given, once all that had to do with it have run.
  NodeId scale(OpId op, NodeId input, double factor, NodeId into = kNone);
  NodeId fill(OpId op, TensorId tensor, DeviceIndex device, std::int64_t samples, double with);
  // Into the storage of `into` when given.
  NodeId transfer(OpId op, NodeId input, DeviceIndex to, NodeId into = kNone);
  // `inputs`: those of the first member, then of the next. Returns the outputs in the same order.
  std::vector<NodeId> all_reduce(OpId op, std::span<const DeviceIndex> members, std::span<const NodeId> inputs);

  void before(TaskId first, TaskId second) { graph_.order.emplace_back(first, second); }
  // Makes `later` wait for every task of the compute stream so far that had to do with the parameter value's storage.
  void after_readers(NodeId parameter, TaskId later);

  void add_loss(NodeId value, double weight) { graph_.losses.push_back({value, weight}); }
  TaskGraph take(std::vector<std::int32_t> passes) {
    graph_.passes = std::move(passes);
    return std::move(graph_);
  }

 private:
  TaskId add_task(const Task& task, std::span<const NodeId> inputs, std::span<const NodeId> outputs);
  NodeId add_pass(InstructionKind kind, OpId op, std::span<const NodeId> inputs, NodeId output, double scale);
  void note_use(NodeId value, TaskId task);

  struct User {
    TaskId task;
    std::int32_t next;
  };
  const CompilerTables& tables_;
  TaskGraph graph_;
  std::vector<User> users_;
  std::int32_t micro_batch_ = 0;
};

}  // namespace motley
