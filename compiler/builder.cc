#include "compiler/builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace motley {
namespace {

using Kind = BatchLayout::Kind;

bool contains(const std::vector<std::int32_t>& values, std::int32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

Builder::Builder(const CompilerTables& tables, const Strategy& strategy, std::span<const Placement> placements,
                 const PassOrder& order, std::int64_t batch)
    : tables_(tables),
      strategy_(strategy),
      placements_(placements),
      order_(order),
      batch_(batch),
      placement_(placements.data()),
      writer_(tables, placements[0].everyone()),
      resharder_(writer_, placements[0]),
      synchronizer_(writer_, resharder_, placements, strategy, order),
      early_(placements.size()),
      early_complete_(tables.tensors.size()),
      forward_(tables.graph.ops.size() * static_cast<std::size_t>(placements[0].seats()), kNone),
      is_complete_(tables.tensors.size()) {}

TaskGraph Builder::build() {
  for (std::size_t b = 0; b < order_.batches().size(); ++b) {
    run_batch(order_.batches()[b]);
    synchronizer_.update(b);
  }
  return writer_.take(order_.passes());
}

void Builder::run_batch(const UpdateBatch& batch) {
  samples_ = 0;
  for (std::int32_t m = batch.begin; m < batch.end; ++m) samples_ += samples_of(m, strategy_, batch_);
  if (!whole()) run_early(batch);
  const TensorId loss = tables_.graph.loss;
  const double weight = static_cast<double>(samples_) / static_cast<double>(batch_);
  for (std::int32_t m = batch.begin; m < batch.end; ++m) {
    begin(static_cast<std::size_t>(m));
    synchronizer_.begin(m);
    for (OpId id = 0; id < static_cast<OpId>(tables_.graph.ops.size()); ++id) {
      if (whole() || !tables_.ops[static_cast<std::size_t>(id)].early) run(id);
    }
    synchronizer_.add(*placement_, m);
    for (const Replica& replica : placement_->replicas(info(loss).home)) {
      writer_.add_loss(resharder_.find(loss, replica.device),
                       weight * (info(loss).kind == Kind::kPartialMean ? share(replica) : 1));
    }
  }
}

void Builder::begin(std::size_t micro_batch) {
  micro_batch_ = static_cast<std::int32_t>(micro_batch);
  placement_ = &placements_[micro_batch];
  writer_.begin_micro_batch(micro_batch_);
  resharder_.begin(*placement_, early_[micro_batch]);
  is_complete_ = early_complete_;
  gathered_.clear();
  again_.clear();
  first_backward_ = kNone;
  back_.clear();
}

// What must be made whole over the batch is so over all its micro-batches, before any of them begins.
void Builder::run_early(const UpdateBatch& batch) {
  struct Whole {
    OpId needs = kNone;
    std::map<DeviceIndex, std::vector<NodeId>> parts;
  };
  std::map<TensorId, Whole> wholes;
  const auto ops = static_cast<OpId>(tables_.graph.ops.size());
  for (OpId id = 0; id < ops; ++id) {
    const Op& op = tables_.graph.ops[static_cast<std::size_t>(id)];
    for (std::int32_t place : op.completes) wholes[op.inputs[static_cast<std::size_t>(place)]].needs = id;
  }
  for (auto m = static_cast<std::size_t>(batch.begin); m < static_cast<std::size_t>(batch.end); ++m) {
    begin(m);
    for (OpId id = 0; id < ops; ++id) {
      if (tables_.ops[static_cast<std::size_t>(id)].early) run(id);
    }
    for (auto& [partial, whole] : wholes) {
      for (const Replica& replica : placement_->replicas(info(partial).home)) {
        whole.parts[replica.device].push_back(weighted(whole.needs, partial, replica));
      }
    }
    early_[m] = resharder_.take_values();
  }
  for (const auto& [partial, whole] : wholes) {
    std::vector<DeviceIndex> members;
    std::vector<NodeId> sums;
    for (const auto& [device, parts] : whole.parts) {
      members.push_back(device);
      sums.push_back(parts.size() == 1 ? parts[0] : writer_.sum(whole.needs, parts, partial));
    }
    if (members.size() > 1) sums = writer_.all_reduce(whole.needs, members, sums);
    for (std::size_t i = 0; i < members.size(); ++i) completed_[key(partial, members[i])] = sums[i];
    early_complete_[static_cast<std::size_t>(partial)] = 1;
  }
}

// A copy of the replica's part, as it counts in the whole.
NodeId Builder::weighted(OpId id, TensorId partial, const Replica& replica) {
  const bool mean = info(partial).kind == Kind::kPartialMean;
  return writer_.scale(id, resharder_.find(partial, replica.device), mean ? share(replica) : 1.0);
}

void Builder::run(OpId id) {
  const Op& op = tables_.graph.ops[static_cast<std::size_t>(id)];
  if (op.kind == OpKind::kUpdate) return;
  if (op.kind != OpKind::kForward && first_backward_ == kNone) first_backward_ = writer_.next_task();
  if (op.kind == OpKind::kGradientSum) {
    if (tensor(tensor(op.outputs[0]).gradient_of).role != TensorRole::kParameter) sum_gradients(id);
    return;
  }
  if (op.kind == OpKind::kForward) {
    for (std::int32_t place : op.completes) complete(id, op.inputs[static_cast<std::size_t>(place)]);
  }
  for (const Replica& replica : placement_->replicas(op.group)) instance(id, replica);
}

TaskId Builder::instance(OpId id, const Replica& replica) {
  if (!fetch(id, replica)) return kNone;
  const Op& op = tables_.graph.ops[static_cast<std::size_t>(id)];
  outputs_.clear();
  for (TensorId output : op.outputs) {
    if (output == kNone) {
      outputs_.push_back(kNone);
      continue;
    }
    NodeId alias = kNone;
    const TensorId root = info(output).root;
    for (NodeId input : inputs_) {
      if (root != output && input != kNone && info(writer_.at(input).tensor).root == root) alias = input;
    }
    outputs_.push_back(writer_.add_value(output, replica.device, replica.begin, replica.end, alias));
    resharder_.put(outputs_.back());
  }
  const TaskId task = writer_.compute(id, replica.device, replica.samples(), inputs_, outputs_);
  writer_.set_pass(task, order_.place(id, micro_batch_));
  forward_[static_cast<std::size_t>(key(id, replica.device))] = task;
  // Autograd's context is no value: a quotient's gradient needs nothing but its inputs, and still comes after it.
  if (op.is_backward()) writer_.before(forward_[static_cast<std::size_t>(key(op.forward, replica.device))], task);
  return task;
}

// Fills inputs_. False when no gradient reached this replica, so that nothing is to be done there.
bool Builder::fetch(OpId id, const Replica& replica) {
  const Op& op = tables_.graph.ops[static_cast<std::size_t>(id)];
  const OpInfo& op_info = tables_.ops[static_cast<std::size_t>(id)];
  inputs_.clear();
  if (!fetch_gradients(id, replica)) return false;
  const std::optional<Loan> loan =
      first_backward_ == kNone ? std::nullopt : order_.loan(id, micro_batch_, replica.device);
  if (op.is_backward()) recompute_for(id, replica);
  for (std::size_t i = inputs_.size(); i < op.inputs.size(); ++i) {
    const TensorId input = op.inputs[i];
    const bool completed =
        contains(op_info.completed, static_cast<std::int32_t>(i)) && is_complete_[static_cast<std::size_t>(input)] != 0;
    inputs_.push_back(completed ? completed_.at(key(input, replica.device))
                                : resharder_.need(input, replica.device, replica.begin, replica.end, id));
    if (loan && !completed) inputs_.back() = back(id, inputs_.back(), *loan);
  }
  return true;
}

// What stands, in the backward pass, for a value that the device kept: what came back of it. State, the model's inputs
// and what the backward pass itself has made are never lent.
NodeId Builder::back(OpId id, NodeId value, const Loan& loan) {
  if (value == kNone) return kNone;
  if (const auto known = back_.find(value); known != back_.end()) return known->second;
  const TaskValue kept = writer_.at(value);
  const TaskValue& storage = writer_.at(writer_.storage_of(value));
  NodeId returned = value;
  if (storage.maker == kNone || storage.maker >= first_backward_ ||
      tensor(storage.tensor).role != TensorRole::kActivation) {
    return value;
  }
  if (kept.alias_of != kNone) {
    returned = again(id, value, loan);
  } else {
    returned = writer_.transfer(id, writer_.transfer(id, value, loan.to), kept.device);
    writer_.set_pass(writer_.at(returned).maker, loan.back);
  }
  return back_[value] = returned;
}

// A view of what was lent is made once more, of what came back.
NodeId Builder::again(OpId id, NodeId view, const Loan& loan) {
  const TaskId maker = writer_.at(view).maker;
  const Task task = writer_.task(maker);
  std::vector<NodeId> inputs = writer_.inputs_of(maker), outputs = writer_.outputs_of(maker);
  const auto is_view = [&](NodeId output) { return output == kNone || writer_.at(output).alias_of != kNone; };
  if (task.kind != InstructionKind::kCompute || !tables_.ops[static_cast<std::size_t>(task.op)].repeatable ||
      !std::ranges::all_of(outputs, is_view)) {
    return view;
  }
  for (NodeId& input : inputs) input = back(id, input, loan);
  const NodeId storage = back(id, writer_.storage_of(view), loan);
  for (NodeId& output : outputs) {
    if (output == kNone) continue;
    const TaskValue was = writer_.at(output);
    const NodeId made = writer_.add_value(was.tensor, was.device, was.begin, was.end, storage);
    back_[output] = made;
    output = made;
  }
  const TaskId made = writer_.compute(task.op, task.device, task.batch, inputs, outputs);
  writer_.set_pass(made, order_.place_again(task.op, micro_batch_));
  forward_[static_cast<std::size_t>(key(task.op, task.device))] = made;
  return back_.at(view);
}

// The leading inputs, which are gradients. False when there are some, and none was made.
bool Builder::fetch_gradients(OpId id, const Replica& replica) {
  const std::int32_t count = tables_.ops[static_cast<std::size_t>(id)].gradients;
  bool any = count == 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const TensorId input = tables_.graph.ops[static_cast<std::size_t>(id)].inputs[static_cast<std::size_t>(i)];
    inputs_.push_back(gradient(id, input, replica));
    any |= inputs_.back() != kNone;
  }
  return any;
}

// Makes again what a backward op needs of its own group and was not kept, once its gradients are there.
void Builder::recompute_for(OpId backward, const Replica& replica) {
  const Op& op = tables_.graph.ops[static_cast<std::size_t>(backward)];
  if (strategy_.groups[static_cast<std::size_t>(op.group)].recompute == Recompute::kNone) return;
  const std::vector<NodeId> gradients = inputs_;
  recompute(op.forward, replica, gradients);
  for (std::size_t i = gradients.size(); i < op.inputs.size(); ++i) {
    const OpId maker = op.inputs[i] == kNone ? kNone : tensor(op.inputs[i]).producer;
    if (maker != kNone && tables_.graph.ops[static_cast<std::size_t>(maker)].group == op.group) {
      recompute(maker, replica, gradients);
    }
  }
  inputs_ = gradients;
}

void Builder::recompute(OpId id, const Replica& replica, std::span<const NodeId> gradients) {
  if (!runs_again(tables_, strategy_, id) || !again_.insert(key(id, replica.device)).second) return;
  const Op& op = tables_.graph.ops[static_cast<std::size_t>(id)];
  for (TensorId input : op.inputs) {
    const OpId maker = input == kNone ? kNone : tensor(input).producer;
    if (maker != kNone && tables_.graph.ops[static_cast<std::size_t>(maker)].group == op.group) {
      recompute(maker, replica, gradients);
    }
  }
  const TaskId task = instance(id, replica);
  writer_.set_pass(task, order_.place_again(id, micro_batch_));
  for (NodeId gradient : gradients) {
    if (gradient != kNone && writer_.at(gradient).maker != kNone) writer_.before(writer_.at(gradient).maker, task);
  }
}

// The replicas' partial values become the whole on each of them. What is reduced is a copy, since others (autograd
// among them) may still want the part; such values are small.
void Builder::complete(OpId id, TensorId partial) {
  const auto replicas = placement_->replicas(info(partial).home);
  if (replicas.size() == 1 || is_complete_[static_cast<std::size_t>(partial)]) return;
  is_complete_[static_cast<std::size_t>(partial)] = 1;
  std::vector<DeviceIndex> members;
  std::vector<NodeId> copies;
  for (const Replica& replica : replicas) {
    members.push_back(replica.device);
    copies.push_back(weighted(id, partial, replica));
  }
  const std::vector<NodeId> wholes = writer_.all_reduce(id, members, copies);
  for (std::size_t i = 0; i < members.size(); ++i) completed_[key(partial, members[i])] = wholes[i];
}

// Where its parts are, if they are all in one place: a residual across a cut sends one gradient back.
void Builder::sum_gradients(OpId id) {
  const Op& op = tables_.graph.ops[static_cast<std::size_t>(id)];
  const TensorId total = op.outputs[0];
  if (info(total).kind == Kind::kIndependent) {
    gather(id, total, op.inputs);
    return;
  }
  std::vector<TensorId> parts = op.inputs;
  GroupId where = info(total).home;
  if (info(total).kind == Kind::kSplit) {
    const GroupId first = resharder_.maker(parts[0]);
    const auto made_alike = [&](TensorId part) { return placement_->same(resharder_.maker(part), first); };
    if (std::all_of(parts.begin(), parts.end(), made_alike)) {
      where = first;
      resharder_.set_maker(total, first);
    } else {
      parts = presum(id, parts, where);
    }
  }
  for (const Replica& replica : placement_->replicas(where)) sum_on(id, parts, total, replica);
}

void Builder::sum_on(OpId id, std::span<const TensorId> parts, TensorId as, const Replica& replica) {
  std::vector<NodeId> values;
  for (TensorId part : parts) {
    const NodeId value = gradient(id, part, replica);
    if (value != kNone) values.push_back(value);
  }
  if (!values.empty()) resharder_.put(writer_.sum(id, values, as));
}

// Parts that were made under one placement, and must travel, are summed before they do. The sum is put in the place of
// the first of them, which nothing else uses.
std::vector<TensorId> Builder::presum(OpId id, const std::vector<TensorId>& parts, GroupId home) {
  std::vector<TensorId> left;
  std::vector<char> taken(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (taken[i]) continue;
    left.push_back(parts[i]);
    const GroupId maker = resharder_.maker(parts[i]);
    if (placement_->same(maker, home)) continue;
    std::vector<TensorId> together = {parts[i]};
    for (std::size_t k = i + 1; k < parts.size(); ++k) {
      if (!placement_->same(resharder_.maker(parts[k]), maker)) continue;
      taken[k] = 1;
      together.push_back(parts[k]);
    }
    if (together.size() == 1) continue;
    for (const Replica& replica : placement_->replicas(maker)) sum_on(id, together, parts[i], replica);
  }
  return left;
}

// The gradient as the replica's backward op needs it; kNone when nobody made one for it.
NodeId Builder::gradient(OpId id, TensorId gradient, const Replica& replica) {
  if (tensor(gradient).producer == kNone) return seed(id, gradient, replica);
  const bool done = is_complete_[static_cast<std::size_t>(gradient)];
  switch (info(gradient).kind) {
    case Kind::kSplit:
      return resharder_.need(gradient, replica.device, replica.begin, replica.end, id);
    case Kind::kIndependent:
      if (!done) gather(id, gradient, {&gradient, 1});
      break;
    default:
      if (!done && info(gradient).gradient_of_whole) complete_gradient(id, gradient);
      break;
  }
  return part_on(gradient, replica.device);
}

NodeId Builder::seed(OpId id, TensorId gradient, const Replica& replica) {
  MOTLEY_CHECK(tensor(gradient).gradient_of == tables_.graph.loss, tensor(gradient).name);
  const NodeId there = resharder_.find(gradient, replica.device);
  if (there != kNone) return there;
  const bool mean = info(tables_.graph.loss).kind == Kind::kPartialMean;
  const NodeId made = writer_.fill(id, gradient, replica.device, replica.samples(), mean ? share(replica) : 1.0);
  resharder_.put(made);
  return made;
}

NodeId Builder::part_on(TensorId part, DeviceIndex device) const {
  if (!is_complete_[static_cast<std::size_t>(part)]) return resharder_.find(part, device);
  const auto found = gathered_.find(key(part, device));
  return found == gathered_.end() ? kNone : found->second;
}

// Every device that used a kIndependent tensor has a part of its gradient: they meet at the holder that the device took
// the tensor from, and nowhere else, so that the holders' totals sum to the whole.
void Builder::gather(OpId id, TensorId total, std::span<const TensorId> parts) {
  const TensorId of = tensor(total).gradient_of;
  std::vector<std::vector<NodeId>> by_device(static_cast<std::size_t>(tables_.devices()));
  for (TensorId part : parts) {
    for (const Replica& replica : placement_->replicas(info(part).home)) {
      const NodeId value = part_on(part, replica.device);
      if (value != kNone) by_device[static_cast<std::size_t>(replica.device)].push_back(value);
    }
  }
  const auto joined = [&](const std::vector<NodeId>& values) {
    return values.size() == 1 ? values[0] : writer_.sum(id, values, total);
  };
  const GroupId home = info(of).home;
  for (DeviceIndex device = 0; device < tables_.devices(); ++device) {
    const std::vector<NodeId>& values = by_device[static_cast<std::size_t>(device)];
    if (values.empty() || placement_->on(home, device) != nullptr) continue;
    const DeviceIndex holder = resharder_.holder(of, device);
    const NodeId sent = writer_.transfer(id, joined(values), holder);
    by_device[static_cast<std::size_t>(holder)].push_back(sent);
  }
  for (const Replica& replica : placement_->replicas(home)) {
    const std::vector<NodeId>& values = by_device[static_cast<std::size_t>(replica.device)];
    if (!values.empty()) gathered_[key(total, replica.device)] = joined(values);
  }
  is_complete_[static_cast<std::size_t>(total)] = 1;
}

// Each replica used the whole V = sum of v_i (or of b_i/B v_i) for its part of the loss, so dL/dV is the sum of what
// they found, and dL/dv_i is that (times b_i/B).
void Builder::complete_gradient(OpId id, TensorId gradient) {
  const auto replicas = placement_->replicas(info(gradient).home);
  if (replicas.size() == 1) return;
  std::vector<DeviceIndex> members;
  std::vector<NodeId> copies;
  for (const Replica& replica : replicas) {
    members.push_back(replica.device);
    const NodeId found = resharder_.find(gradient, replica.device);
    copies.push_back(found == kNone ? writer_.fill(id, gradient, replica.device, replica.samples(), 0.0)
                                    : writer_.scale(id, found, 1.0));
  }
  const std::vector<NodeId> wholes = writer_.all_reduce(id, members, copies);
  const bool mean = info(gradient).kind == Kind::kPartialMean;
  for (std::size_t i = 0; i < members.size(); ++i) {
    gathered_[key(gradient, members[i])] = mean ? writer_.scale(id, wholes[i], share(replicas[i])) : wholes[i];
  }
  is_complete_[static_cast<std::size_t>(gradient)] = 1;
}

}  // namespace motley
