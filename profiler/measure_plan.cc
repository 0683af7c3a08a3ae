#include "profiler/measure_plan.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "profiler/measure.h"

namespace motley {

MeasurePlan::MeasurePlan(const Graph& graph, const Signatures& signatures)
    : graph_(graph),
      signatures_(signatures),
      backward_(graph.ops.size()),
      leader_(signatures.distinct.size(), kNone),
      stand_in_(graph.ops.size(), kNone),
      step_of_(graph.ops.size(), kNone) {
  const auto count = static_cast<OpId>(graph.ops.size());
  for (OpId op = 0; op < count; ++op) {
    if (graph.ops[op].is_backward()) backward_[graph.ops[op].forward].push_back(op);
  }
  for (OpId op = 0; op < count; ++op) {
    if (stand_in_[op] != kNone) continue;  // a backward op whose sibling stood earlier
    if (graph.ops[op].is_backward()) {
      add_backward(op);
    } else {
      add(op);
    }
  }
}

void MeasurePlan::add(OpId op) {
  const bool integers = std::any_of(graph_.ops[op].outputs.begin(), graph_.ops[op].outputs.end(),
                                    [&](TensorId id) { return id != kNone && !is_floating(graph_.tensors[id].dtype); });
  OpId& leader = leader_[signatures_.of_op[op]];
  if (leader == kNone || integers) {
    step_of_[op] = static_cast<std::int32_t>(steps_.size());
    steps_.push_back({{op}, kNone, integers && leader != kNone});
    if (leader == kNone) leader = op;
    stand_in_[op] = op;
  } else {
    stand_in_[op] = leader;
  }
}

// Equal backward ops have equal forward ops and so equally many siblings, in the same order.
void MeasurePlan::add_backward(OpId op) {
  const std::vector<OpId>& siblings = backward_[graph_.ops[op].forward];
  const OpId leader = leader_[signatures_.of_op[op]];
  if (leader == kNone) {
    for (const OpId sibling : siblings) {
      leader_[signatures_.of_op[sibling]] = sibling;
      stand_in_[sibling] = sibling;
      step_of_[sibling] = static_cast<std::int32_t>(steps_.size());
    }
    steps_.push_back({siblings, graph_.ops[op].forward, false});
    return;
  }
  const std::vector<OpId>& leaders = backward_[graph_.ops[leader].forward];
  MOTLEY_CHECK(leaders.size() == siblings.size(), "siblings of " + graph_.ops[op].name);
  for (std::size_t i = 0; i < siblings.size(); ++i) stand_in_[siblings[i]] = leaders[i];
}

TensorId MeasurePlan::stand_in(TensorId tensor) const {
  const OpId producer = tensor == kNone ? kNone : graph_.tensors[tensor].producer;
  if (producer == kNone) return tensor;
  const std::vector<TensorId>& outputs = graph_.ops[producer].outputs;
  const auto place = std::find(outputs.begin(), outputs.end(), tensor) - outputs.begin();
  return graph_.ops[stand_in_[producer]].outputs[static_cast<std::size_t>(place)];
}

std::vector<TensorId> MeasurePlan::reads(const MeasureStep& step) const {
  std::vector<TensorId> result;
  const auto add_inputs = [&](const Op& op, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (op.inputs[i] != kNone) result.push_back(stand_in(op.inputs[i]));
    }
  };
  if (step.context != kNone) add_inputs(graph_.ops[step.context], graph_.ops[step.context].inputs.size());
  for (const OpId id : step.ops) {
    const Op& op = graph_.ops[id];
    add_inputs(op, op.is_backward() ? op.gradient_outputs.size() : op.inputs.size());
  }
  return result;
}

std::vector<bool> MeasurePlan::needed(std::vector<bool> wanted, const std::vector<bool>& filled) const {
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (!wanted[i] || filled[i]) continue;
    for (const TensorId tensor : reads(steps_[i])) {
      const OpId producer = graph_.tensors[tensor].producer;
      if (producer != kNone && step_of_[producer] != kNone) wanted[step_of_[producer]] = true;
    }
  }
  return wanted;
}

std::vector<std::int64_t> profile_batches(std::int64_t most) {
  MOTLEY_CHECK(most >= 1, "batch sizes up to " + std::to_string(most));
  constexpr double kStep = 4;
  const double steps = std::ceil(std::log(static_cast<double>(most)) / std::log(kStep) - 1e-9);
  std::vector<std::int64_t> batches{1};
  for (int i = 1; i <= static_cast<int>(steps); ++i) {
    const std::int64_t batch = std::llround(std::pow(static_cast<double>(most), i / steps));
    if (batch > batches.back()) batches.push_back(batch);
  }
  return batches;
}

}  // namespace motley
