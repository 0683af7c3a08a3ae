#include "compiler/task_writer.h"

#include <algorithm>
#include <utility>

namespace motley {

TaskWriter::TaskWriter(const CompilerTables& tables, std::vector<DeviceIndex> everyone) : tables_(tables) {
  graph_.everyone = std::move(everyone);
  const std::size_t guess = 4 * tables.graph.ops.size();
  graph_.tasks.reserve(guess);
  graph_.values.reserve(guess);
  graph_.operands.reserve(4 * guess);
}

NodeId TaskWriter::add_value(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end,
                             NodeId alias_of) {
  const auto id = static_cast<NodeId>(graph_.values.size());
  TaskValue value{.tensor = tensor, .device = device, .begin = begin, .end = end};
  if (tables_.tensors[static_cast<std::size_t>(tensor)].kind != BatchLayout::Kind::kSplit) {
    value.end -= value.begin;
    value.begin = 0;
  }
  value.bytes = tables_.bytes(tensor, end - begin);
  value.alias_of = alias_of == kNone ? kNone : storage_of(alias_of);
  graph_.values.push_back(value);
  return id;
}

std::vector<NodeId> TaskWriter::inputs_of(TaskId id) const {
  const auto nodes = graph_.inputs_of(task(id));
  return {nodes.begin(), nodes.end()};
}

std::vector<NodeId> TaskWriter::outputs_of(TaskId id) const {
  const auto nodes = graph_.outputs_of(task(id));
  return {nodes.begin(), nodes.end()};
}

NodeId TaskWriter::add_state(TensorId tensor, DeviceIndex device) {
  const NodeId id = add_value(tensor, device, 0, 0);
  graph_.values.back().persistent = true;
  return id;
}

NodeId TaskWriter::add_input(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end) {
  const NodeId id = add_value(tensor, device, begin, end);
  graph_.inputs.push_back(id);
  return id;
}

TaskId TaskWriter::add_task(const Task& task, std::span<const NodeId> inputs, std::span<const NodeId> outputs) {
  const auto id = static_cast<TaskId>(graph_.tasks.size());
  graph_.tasks.push_back(task);
  Task& added = graph_.tasks.back();
  added.first_input = static_cast<std::int32_t>(graph_.operands.size());
  added.inputs = static_cast<std::int32_t>(inputs.size());
  graph_.operands.insert(graph_.operands.end(), inputs.begin(), inputs.end());
  added.first_output = static_cast<std::int32_t>(graph_.operands.size());
  added.outputs = static_cast<std::int32_t>(outputs.size());
  graph_.operands.insert(graph_.operands.end(), outputs.begin(), outputs.end());
  for (NodeId output : outputs) {
    if (output != kNone) graph_.values[static_cast<std::size_t>(output)].maker = id;
  }
  return id;
}

void TaskWriter::note_use(NodeId value, TaskId task) {
  if (value == kNone) return;
  TaskValue& state = graph_.values[static_cast<std::size_t>(storage_of(value))];
  const bool written = tables_.tensors[static_cast<std::size_t>(state.tensor)].written;
  if (!written && tables_.graph.tensors[static_cast<std::size_t>(state.tensor)].role != TensorRole::kParameter) return;
  // What forward ops write they use in the graph's order, micro-batch after micro-batch. Backward ops have the
  // statistics that autograd saved.
  const OpId op = graph_.tasks[static_cast<std::size_t>(task)].op;
  if (written && tables_.graph.ops[static_cast<std::size_t>(op)].kind != OpKind::kForward) return;
  if (state.users != kNone) {
    const TaskId last = users_[static_cast<std::size_t>(state.users)].task;
    if (last == task) return;
    if (written) graph_.order.emplace_back(last, task);
  }
  users_.push_back({task, state.users});
  state.users = static_cast<std::int32_t>(users_.size() - 1);
}

TaskId TaskWriter::compute(OpId op, DeviceIndex device, std::int64_t batch, std::span<const NodeId> inputs,
                           std::span<const NodeId> outputs) {
  const TaskId id = add_task({.kind = InstructionKind::kCompute,
                              .op = op,
                              .device = device,
                              .batch = batch,
                              .micro_batch = micro_batch_,
                              .seconds = tables_.costs.op(op, device, batch).time.value},
                             inputs, outputs);
  for (NodeId input : inputs) note_use(input, id);
  return id;
}

NodeId TaskWriter::add_pass(InstructionKind kind, OpId op, std::span<const NodeId> inputs, NodeId output,
                            double scale) {
  const DeviceIndex device = at(output).device;
  const TaskId id = add_task({.kind = kind,
                              .op = op,
                              .device = device,
                              .scale = scale,
                              .seconds = tables_.costs.memory_pass(device, Bytes(at(output).bytes)).value},
                             inputs, {&output, 1});
  for (NodeId input : inputs) note_use(input, id);
  return output;
}

NodeId TaskWriter::slice(OpId op, NodeId input, std::int64_t begin, std::int64_t end) {
  const NodeId output = add_value(at(input).tensor, at(input).device, begin, end);
  return add_pass(InstructionKind::kSlice, op, {&input, 1}, output, 1.0);
}

NodeId TaskWriter::concat(OpId op, std::span<const NodeId> parts) {
  const NodeId output =
      add_value(at(parts[0]).tensor, at(parts[0]).device, at(parts.front()).begin, at(parts.back()).end);
  return add_pass(InstructionKind::kConcat, op, parts, output, 1.0);
}

NodeId TaskWriter::sum(OpId op, std::span<const NodeId> parts, TensorId as) {
  const NodeId output = add_value(as, at(parts[0]).device, at(parts[0]).begin, at(parts[0]).end);
  return add_pass(InstructionKind::kSum, op, parts, output, 1.0);
}

NodeId TaskWriter::add_to(OpId op, NodeId total, NodeId part) {
  const NodeId output = add_value(at(total).tensor, at(total).device, at(total).begin, at(total).end, total);
  const NodeId both[] = {total, part};
  return add_pass(InstructionKind::kSum, op, both, output, 1.0);
}

NodeId TaskWriter::scale(OpId op, NodeId input, double factor, NodeId into) {
  const NodeId output = add_value(at(input).tensor, at(input).device, at(input).begin, at(input).end, into);
  add_pass(InstructionKind::kScale, op, {&input, 1}, output, factor);
  if (into == kNone) return output;
  after_readers(into, at(output).maker);
  note_use(into, at(output).maker);
  return output;
}

NodeId TaskWriter::fill(OpId op, TensorId tensor, DeviceIndex device, std::int64_t samples, double with) {
  return add_pass(InstructionKind::kFill, op, {}, add_value(tensor, device, 0, samples), with);
}

NodeId TaskWriter::transfer(OpId op, NodeId input, DeviceIndex to, NodeId into) {
  const DeviceIndex from = at(input).device;
  const NodeId output = add_value(at(input).tensor, to, at(input).begin, at(input).end, into);
  add_task({.kind = InstructionKind::kSend,
            .op = op,
            .device = from,
            .peer = to,
            .seconds = tables_.transfer_seconds(from, to, at(output).bytes)},
           {&input, 1}, {&output, 1});
  return output;
}

std::vector<NodeId> TaskWriter::all_reduce(OpId op, std::span<const DeviceIndex> members,
                                           std::span<const NodeId> inputs) {
  const std::vector<DeviceIndex> devices(members.begin(), members.end());
  auto& sets = graph_.member_sets;
  const auto known = std::find(sets.begin(), sets.end(), devices);
  const auto set = static_cast<std::int32_t>(known - sets.begin());
  if (known == sets.end()) sets.push_back(devices);
  std::vector<NodeId> outputs;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TaskValue input = at(inputs[i]);
    outputs.push_back(add_value(input.tensor, input.device, input.begin, input.end, inputs[i]));
    if (i < inputs.size() / members.size()) bytes += input.bytes;
  }
  add_task({.kind = InstructionKind::kAllReduce,
            .op = op,
            .members = set,
            .seconds = tables_.all_reduce_seconds(graph_.everyone.empty() ? members : graph_.everyone, bytes)},
           inputs, outputs);
  return outputs;
}

void TaskWriter::after_readers(NodeId parameter, TaskId later) {
  const TaskValue& storage = at(storage_of(parameter));
  for (std::int32_t user = storage.users; user != kNone; user = users_[static_cast<std::size_t>(user)].next) {
    const TaskId reader = users_[static_cast<std::size_t>(user)].task;
    if (reader != later) graph_.order.emplace_back(reader, later);
  }
}

}  // namespace motley
