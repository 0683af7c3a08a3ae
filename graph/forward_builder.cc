#include "graph/forward_builder.h"

#include <algorithm>

#include "base/error.h"
#include "graph/op_traits.h"
#include "graph/strides.h"

namespace motley {

void Call::add(const std::string& argument, TensorId tensor) {
  arguments.push_back({argument, InputRef{static_cast<std::int32_t>(inputs.size())}});
  inputs.push_back(tensor);
}

std::string ForwardBuilder::unique(const std::string& name, std::map<std::string, int>& taken) {
  std::string candidate = name;
  while (!taken.emplace(candidate, 1).second) candidate = name + "." + std::to_string(++taken[name]);
  return candidate;
}

TensorId ForwardBuilder::add_tensor(const std::string& name, const TensorMeta& meta, TensorRole role,
                                    bool requires_gradient) {
  Tensor tensor;
  tensor.name = unique(name, tensor_names_);
  tensor.dtype = meta.dtype;
  tensor.shape = meta.shape;
  tensor.role = role;
  tensor.requires_gradient = requires_gradient;
  graph_.tensors.push_back(std::move(tensor));
  places_.push_back({meta, meta.strides_known});
  return static_cast<TensorId>(graph_.tensors.size()) - 1;
}

bool ForwardBuilder::views_storage(const Call& call, const std::vector<std::optional<TensorMeta>>& outputs) const {
  if (call.inputs.empty()) return false;
  if (is_view(call.target)) return true;
  if (!is_reshape(call.target) || outputs.size() != 1 || !outputs[0]) return false;
  const TensorMeta& from = meta(call.inputs[0]);
  return from.strides_known && can_view(from.shape, from.strides, outputs[0]->shape);
}

std::vector<TensorId> ForwardBuilder::add(const Call& call, const std::vector<std::optional<TensorMeta>>& outputs,
                                          const std::vector<std::string>& output_names) {
  Op op;
  op.name = unique(call.name, op_names_);
  op.target = call.target;
  op.arguments = call.arguments;
  op.inputs = call.inputs;
  op.writes = call.writes;
  op.source = call.source;
  op.module = call.module;
  op.is_view = views_storage(call, outputs);
  op.random = is_random(op);

  bool gradient = call.gradients && !cuts_gradient(call.target);
  gradient = gradient && std::any_of(call.inputs.begin(), call.inputs.end(),
                                     [&](TensorId input) { return tensor(input).requires_gradient; });
  const bool sure =
      has_dense_result(call.target) ||
      (!has_device_strides(call.target) && std::all_of(call.inputs.begin(), call.inputs.end(), [&](TensorId input) {
        return meta(input).shape.empty() || strides_are_sure(input);
      }));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) {
      op.outputs.push_back(kNone);
      continue;
    }
    const TensorId id =
        add_tensor(output_names[i], *outputs[i], TensorRole::kActivation, gradient && is_floating(outputs[i]->dtype));
    places_.back().sure = sure && outputs[i]->strides_known;
    Tensor& made = graph_.tensors.back();
    made.producer = static_cast<OpId>(graph_.ops.size());
    if (op.is_view) {
      const Tensor& base = tensor(op.inputs[0]);
      made.alias_of = base.alias_of == kNone ? op.inputs[0] : base.alias_of;
    }
    op.outputs.push_back(id);
  }
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().outputs;
}

TensorId ForwardBuilder::add(const Call& call, const TensorMeta& output) { return add(call, {output}, {call.name})[0]; }

Graph ForwardBuilder::finish(std::string name, const std::vector<TensorId>& inputs, TensorId loss) {
  std::vector<bool> needed(graph_.tensors.size(), false);
  std::vector<bool> runs(graph_.ops.size(), false);
  needed[static_cast<std::size_t>(loss)] = true;
  for (TensorId input : inputs) needed[static_cast<std::size_t>(input)] = true;
  for (std::size_t i = graph_.ops.size(); i-- > 0;) {
    const Op& op = graph_.ops[i];
    runs[i] = !op.writes.empty() || std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId output) {
      return output != kNone && needed[static_cast<std::size_t>(output)];
    });
    if (!runs[i]) continue;
    for (TensorId input : op.inputs) needed[static_cast<std::size_t>(input)] = true;
    for (TensorId state : op.writes) needed[static_cast<std::size_t>(state)] = true;
  }
  // The base of a needed view is needed itself: the view was made from it.
  std::vector<OpId> new_op(graph_.ops.size(), kNone);
  std::vector<TensorId> new_tensor(graph_.tensors.size(), kNone);
  Graph result;
  result.name = std::move(name);
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    if (!runs[i]) continue;
    new_op[i] = static_cast<OpId>(result.ops.size());
    result.ops.push_back(graph_.ops[i]);
  }
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    if (!needed[i]) continue;
    new_tensor[i] = static_cast<TensorId>(result.tensors.size());
    result.tensors.push_back(graph_.tensors[i]);
  }
  const auto moved = [&](TensorId id) { return id == kNone ? kNone : new_tensor[static_cast<std::size_t>(id)]; };
  for (Tensor& tensor : result.tensors) {
    if (tensor.producer != kNone) tensor.producer = new_op[static_cast<std::size_t>(tensor.producer)];
    tensor.alias_of = moved(tensor.alias_of);
  }
  for (Op& op : result.ops) {
    for (std::vector<TensorId>* ids : {&op.inputs, &op.outputs, &op.writes}) {
      for (TensorId& id : *ids) id = moved(id);
    }
  }
  for (TensorId input : inputs) result.inputs.push_back(moved(input));
  result.loss = moved(loss);
  result.finish();
  return result;
}

}  // namespace motley
