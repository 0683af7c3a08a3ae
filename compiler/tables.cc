#include "compiler/tables.h"

#include <algorithm>

#include "base/error.h"
#include "graph/op_knowledge.h"

namespace motley {
namespace {

using Kind = BatchLayout::Kind;

bool contains(const std::vector<std::int32_t>& values, std::int32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

void fill_sizes(const Graph& graph, std::vector<TensorInfo>& infos) {
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    const BatchExpr count = element_count(tensor.shape);
    const std::vector<std::int64_t>& coefficients = count.coefficients();
    infos[i].linear = coefficients.size() <= 2;
    if (!infos[i].linear) continue;
    const std::int64_t width = size_of(tensor.dtype).value;
    if (!coefficients.empty()) infos[i].fixed_bytes = coefficients[0] * width;
    if (coefficients.size() == 2) infos[i].sample_bytes = coefficients[1] * width;
  }
}

void fill_tensors(const Graph& graph, std::vector<TensorInfo>& infos) {
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    TensorInfo& info = infos[i];
    info.root = tensor.alias_of != kNone ? tensor.alias_of : static_cast<TensorId>(i);
    info.persistent = tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kBuffer ||
                      tensor.role == TensorRole::kConstant || tensor.role == TensorRole::kOptimizerState;
    info.kind = tensor.layout.kind;
    if (tensor.role == TensorRole::kGradient) {
      MOTLEY_CHECK(tensor.gradient_of != kNone, tensor.name);
      info.kind = graph.tensors[static_cast<std::size_t>(tensor.gradient_of)].layout.kind;
    }
    if (tensor.producer != kNone) {
      const Op& producer = graph.ops[static_cast<std::size_t>(tensor.producer)];
      info.home = producer.group;
      // Summed where the value itself was made, whatever the sum's own group says.
      if (producer.kind == OpKind::kGradientSum) {
        const OpId maker = graph.tensors[static_cast<std::size_t>(tensor.gradient_of)].producer;
        if (maker != kNone) info.home = graph.ops[static_cast<std::size_t>(maker)].group;
      }
    } else if (tensor.role == TensorRole::kGradient && tensor.gradient_of == graph.loss) {
      const OpId maker = graph.tensors[static_cast<std::size_t>(graph.loss)].producer;
      info.home = graph.ops[static_cast<std::size_t>(maker)].group;
    }
  }
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kForward) continue;
    for (TensorId written : op.writes) infos[static_cast<std::size_t>(written)].written = true;
  }
  const std::vector<char> taken = taken_by_backward(graph);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    infos[i].saved = taken[i] != 0 && graph.tensors[i].role == TensorRole::kActivation;
  }
}

bool is_cheap(const Op& op) {
  switch (facts_of(op.target).work) {
    case WorkRule::kContraction:
    case WorkRule::kConvolution:
    case WorkRule::kTransposedConvolution:
    case WorkRule::kAttention:
    case WorkRule::kRecurrent:
      return false;
    default:
      return true;
  }
}

OpInfo op_info(const Graph& graph, const Op& op, std::vector<TensorInfo>& infos) {
  OpInfo info;
  if (op.kind == OpKind::kForward) {
    info.completed = op.completes;
    info.repeatable = !op.random && op.writes.empty();
    info.cheap = is_cheap(op);
  }
  if (!op.is_backward()) return info;
  info.gradients = static_cast<std::int32_t>(op.gradient_outputs.size());
  const Op& forward = graph.ops[static_cast<std::size_t>(op.forward)];
  for (std::int32_t place : forward.completes) {
    const TensorId whole = forward.inputs[static_cast<std::size_t>(place)];
    for (std::size_t i = op.gradient_outputs.size(); i < op.inputs.size(); ++i) {
      if (op.inputs[i] == whole) info.completed.push_back(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i] != kNone && op.gradient_inputs[i] == place) {
        infos[static_cast<std::size_t>(op.outputs[i])].gradient_of_whole = true;
      }
    }
  }
  return info;
}

void add_parts(const Graph& graph, TensorId gradient, ParameterInfo& parameter) {
  const OpId producer = graph.tensors[static_cast<std::size_t>(gradient)].producer;
  MOTLEY_CHECK(producer != kNone, graph.tensors[static_cast<std::size_t>(gradient)].name);
  const Op& op = graph.ops[static_cast<std::size_t>(producer)];
  if (op.kind == OpKind::kGradientSum) {
    for (TensorId part : op.inputs) add_parts(graph, part, parameter);
    return;
  }
  parameter.parts.push_back(gradient);
  parameter.ready = std::max(parameter.ready, producer);
}

std::vector<ParameterInfo> trained_parameters(const Graph& graph) {
  std::vector<ParameterInfo> parameters;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind != OpKind::kUpdate) continue;
    ParameterInfo info;
    info.update = static_cast<OpId>(i);
    info.parameter = op.inputs[0];
    info.gradient = op.inputs[1];
    info.owner = op.group;
    for (OpId user : graph.consumers[static_cast<std::size_t>(info.parameter)]) {
      const Op& consumer = graph.ops[static_cast<std::size_t>(user)];
      if (consumer.kind == OpKind::kForward && !contains(info.users, consumer.group)) {
        info.users.push_back(consumer.group);
      }
    }
    std::sort(info.users.begin(), info.users.end());
    MOTLEY_CHECK(!info.users.empty(), op.name);
    add_parts(graph, info.gradient, info);
    parameters.push_back(std::move(info));
  }
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const ParameterInfo& a, const ParameterInfo& b) { return a.ready < b.ready; });
  return parameters;
}

std::vector<Bond> bonds_of(const Graph& graph, const std::vector<TensorInfo>& infos) {
  std::vector<Bond> bonds;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Kind kind = infos[i].kind;
    if (graph.tensors[i].role != TensorRole::kActivation || kind == Kind::kSplit || kind == Kind::kIndependent)
      continue;
    std::vector<GroupId> seen;
    for (OpId user : graph.consumers[i]) {
      const GroupId group = graph.ops[static_cast<std::size_t>(user)].group;
      if (group == infos[i].home || contains(seen, group)) continue;
      seen.push_back(group);
      bonds.push_back({static_cast<TensorId>(i), infos[i].home, group});
    }
  }
  return bonds;
}

// Marks what completed values rest on. Returns a completed value that rests on parameters or on what others write, if
// there is one.
TensorId mark_early(const Graph& graph, const std::vector<TensorInfo>& infos, std::vector<OpInfo>& ops) {
  std::vector<TensorId> open;
  TensorId late = kNone;
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kForward) continue;
    for (std::int32_t place : op.completes) {
      open.assign(1, op.inputs[static_cast<std::size_t>(place)]);
      std::vector<OpId> below;
      bool early = true;
      while (!open.empty()) {
        const TensorId id = open.back();
        open.pop_back();
        if (id == kNone) continue;
        const Tensor& tensor = graph.tensors[static_cast<std::size_t>(id)];
        early &= tensor.role != TensorRole::kParameter && !infos[static_cast<std::size_t>(id)].written;
        if (tensor.producer == kNone || contains(below, tensor.producer)) continue;
        below.push_back(tensor.producer);
        const Op& producer = graph.ops[static_cast<std::size_t>(tensor.producer)];
        early &= !producer.random && producer.writes.empty() && producer.completes.empty();
        open.insert(open.end(), producer.inputs.begin(), producer.inputs.end());
      }
      if (!early) late = op.inputs[static_cast<std::size_t>(place)];
      for (OpId id : below) {
        OpInfo& info = ops[static_cast<std::size_t>(id)];
        info.early |= early;
        info.repeatable &= !early;
      }
    }
  }
  return late;
}

}  // namespace

CompilerTables::CompilerTables(const Graph& g, const Cluster& c, const CostModel& m)
    : graph(g), cluster(c), costs(m), tensors(g.tensors.size()) {
  MOTLEY_CHECK(graph.loss != kNone && graph.consumers.size() == graph.tensors.size(), graph.name);
  fill_sizes(graph, tensors);
  fill_tensors(graph, tensors);
  ops.reserve(graph.ops.size());
  for (const Op& op : graph.ops) ops.push_back(op_info(graph, op, tensors));
  parameters = trained_parameters(graph);
  bonds = bonds_of(graph, tensors);
  group_edges = edges_between_groups(graph);
  late_completion = mark_early(graph, tensors, ops);
  constexpr DeviceIndex kTabled = 256;
  if (devices() > kTabled) return;
  for (DeviceIndex from = 0; from < devices(); ++from) {
    for (DeviceIndex to = 0; to < devices(); ++to) pairs_.push_back(measure(from, to));
  }
}

CompilerTables::Pair CompilerTables::measure(DeviceIndex from, DeviceIndex to) const {
  if (from == to) return {};
  const Seconds latency = cluster.latency(from, to) + costs.messages(from).overhead + costs.messages(to).overhead;
  return {latency.value, 1 / cluster.bandwidth(from, to).value};
}

double CompilerTables::all_reduce_seconds(std::span<const DeviceIndex> members, std::int64_t bytes) const {
  const auto count = static_cast<std::int64_t>(members.size());
  double step = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const DeviceIndex next = members[(i + 1) % members.size()];
    step = std::max(step, transfer_seconds(members[i], next, (bytes + count - 1) / count));
  }
  return static_cast<double>(2 * (count - 1)) * step;
}

}  // namespace motley
