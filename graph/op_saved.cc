#include <algorithm>

#include "graph/op_knowledge.h"

namespace motley {
namespace {

void add_once(std::vector<TensorId>& tensors, TensorId id) {
  if (id != kNone && std::find(tensors.begin(), tensors.end(), id) == tensors.end()) tensors.push_back(id);
}

std::vector<std::int32_t> places_of(const Op& op, std::string_view argument) {
  const Argument* found = find_argument(op, argument);
  if (found == nullptr) return {};
  std::vector<std::int32_t> places;
  if (const auto* input = std::get_if<InputRef>(&found->value)) places.push_back(input->index);
  if (const auto* inputs = std::get_if<std::vector<InputRef>>(&found->value)) {
    for (InputRef each : *inputs) places.push_back(each.index);
  }
  std::erase(places, kNone);
  return places;
}

bool needs_gradient(const Op& op, std::string_view argument, const std::vector<std::int32_t>& gradient_places) {
  for (std::int32_t place : places_of(op, argument)) {
    if (std::find(gradient_places.begin(), gradient_places.end(), place) != gradient_places.end()) return true;
  }
  return false;
}

Shape leading(const Shape& shape, std::size_t count) {
  return Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(std::min(count, shape.size())));
}

void add_extra(const Graph& graph, const Op& op, ExtraSaved rule, SavedForBackward& saved) {
  const Tensor& input = graph.tensors[op.inputs[0]];
  const Shape output = op.outputs.empty() || op.outputs[0] == kNone ? Shape() : graph.tensors[op.outputs[0]].shape;
  switch (rule) {
    case ExtraSaved::kNone:
      return;
    case ExtraSaved::kMask:
      saved.extra_shape = output;
      saved.extra_item = Bytes(1);
      return;
    case ExtraSaved::kIndices:
      saved.extra_shape = output;
      saved.extra_item = Bytes(8);
      return;
    case ExtraSaved::kInputCopy:
      saved.extra_shape = input.shape;
      saved.extra_item = size_of(input.dtype);
      return;
    case ExtraSaved::kRowStatistics: {
      const Argument* normalized = find_argument(op, "normalized_shape");
      const auto* sizes = normalized == nullptr ? nullptr : std::get_if<std::vector<BatchExpr>>(&normalized->value);
      const std::size_t trailing = sizes == nullptr ? 1 : sizes->size();
      saved.extra_shape = leading(input.shape, input.shape.size() - std::min(trailing, input.shape.size()));
      saved.extra_item = Bytes(8);
      return;
    }
    case ExtraSaved::kChannelStatistics:
      if (input.shape.size() > 1) saved.extra_shape = {input.shape[1]};
      saved.extra_item = Bytes(8);
      return;
    case ExtraSaved::kGroupStatistics: {
      saved.extra_shape = leading(input.shape, 2);
      if (functional_name(op.target) != "instance_norm" && saved.extra_shape.size() == 2) {
        saved.extra_shape[1] = BatchExpr(integer_argument(op, "num_groups", 1));
      }
      saved.extra_item = Bytes(8);
      return;
    }
    case ExtraSaved::kLogSumExp:
      saved.extra_shape = leading(input.shape, input.shape.size() - 1);
      saved.extra_item = Bytes(4);
      return;
    case ExtraSaved::kGates:  // four gates and a cell state per element of the output, at most
      saved.extra_shape = output;
      saved.extra_shape.emplace_back(5);
      saved.extra_item = size_of(input.dtype);
      return;
  }
}

}  // namespace

SavedForBackward saved_for_backward(const Graph& graph, const Op& op,
                                    const std::vector<std::int32_t>& gradient_places) {
  const OpFacts& facts = facts_of(op.target);
  SavedForBackward saved;
  if (!facts.known) {
    for (TensorId id : op.inputs) add_once(saved.tensors, id);
    for (TensorId id : op.outputs) add_once(saved.tensors, id);
    return saved;
  }
  for (const Saved& each : facts.saves) {
    if (each.name.starts_with("result")) {
      if (!each.for_input.empty() && !needs_gradient(op, each.for_input, gradient_places)) continue;
      const std::size_t index = each.name == "result1" ? 1 : 0;
      if (index < op.outputs.size()) add_once(saved.tensors, op.outputs[index]);
      continue;
    }
    if (!each.for_input.empty() && !needs_gradient(op, each.for_input, gradient_places)) continue;
    for (std::int32_t place : places_of(op, each.name)) add_once(saved.tensors, op.inputs[place]);
  }
  if (!op.inputs.empty()) add_extra(graph, op, facts.extra, saved);
  return saved;
}

std::vector<char> taken_by_backward(const Graph& graph) {
  std::vector<char> taken(graph.tensors.size(), 0);
  for (const Op& op : graph.ops) {
    if (!op.is_backward()) continue;
    for (std::size_t i = op.gradient_outputs.size(); i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNone) continue;
      const TensorId root = graph.tensors[op.inputs[i]].alias_of;
      taken[root == kNone ? op.inputs[i] : root] = 1;
    }
  }
  return taken;
}

}  // namespace motley
