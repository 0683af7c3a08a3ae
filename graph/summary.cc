#include "graph/summary.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "graph/op_knowledge.h"

namespace motley {
namespace {

const char* kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kForward:
      return "forward";
    case OpKind::kInputGradient:
      return "input gradient";
    case OpKind::kWeightGradient:
      return "weight gradient";
    case OpKind::kGradientSum:
      return "gradient sum";
    case OpKind::kUpdate:
      return "update";
  }
  return "";
}

class Summarizer {
 public:
  Summarizer(const Graph& graph, std::int64_t batch) : graph_(graph), kept_(graph.tensors.size(), 0) {
    summary_.name = graph.name;
    summary_.fingerprint = graph.fingerprint;
    summary_.batch = batch;
  }

  GraphSummary run() {
    for (const TensorId id : graph_.inputs) {
      InputSummary& input = summary_.inputs.emplace_back();
      input.name = graph_.tensors[id].name;
      input.dtype = graph_.tensors[id].dtype;
      for (const BatchExpr& size : graph_.tensors[id].shape) input.shape.push_back(size.to_string());
    }
    for (const OpGroup& group : graph_.groups) {
      GroupSummary each;
      each.name = group.name;
      each.ops = group.ops.size();
      for (TensorId id : group.parameters) each.parameters += elements(id);
      summary_.groups.push_back(std::move(each));
    }
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) add_tensor(static_cast<TensorId>(id));
    for (const Op& op : graph_.ops) add_op(op);
    return std::move(summary_);
  }

 private:
  std::int64_t elements(TensorId id) const { return element_count(graph_.tensors[id].shape).at(summary_.batch); }
  Bytes bytes(TensorId id) const { return graph_.tensors[id].bytes(summary_.batch); }

  void add_tensor(TensorId id) {
    const Tensor& tensor = graph_.tensors[id];
    switch (tensor.role) {
      case TensorRole::kParameter:
        summary_.parameters += elements(id);
        summary_.weights += bytes(id);
        break;
      case TensorRole::kBuffer:
      case TensorRole::kConstant:
        summary_.buffers += bytes(id);
        break;
      case TensorRole::kOptimizerState:
        summary_.optimizer_states += bytes(id);
        break;
      case TensorRole::kActivation:
        if (tensor.alias_of == kNone) add_output(id);
        break;
      case TensorRole::kInput:
      case TensorRole::kGradient:
        break;
    }
  }

  // Storage that another group's forward reads counts as output of the group that makes it.
  void add_output(TensorId id) {
    const OpId maker = graph_.tensors[id].producer;
    if (maker == kNone) return;
    const GroupId group = graph_.ops[maker].group;
    const auto users = graph_.consumers[id];
    const bool leaves = std::any_of(users.begin(), users.end(), [&](OpId user) {
      return graph_.ops[user].kind == OpKind::kForward && graph_.ops[user].group != group;
    });
    if (leaves && group != kNone) summary_.groups[group].output += bytes(id);
  }

  void add_op(const Op& op) {
    ++summary_.ops_by_kind[kind_name(op.kind)];
    if (op.kind == OpKind::kForward) ++summary_.ops_by_target[op.target];
    if (op.kind == OpKind::kUpdate) summary_.gradients += bytes(op.inputs[1]);
    const Flops work = flops(graph_, op, summary_.batch);
    (op.kind == OpKind::kForward  ? summary_.forward
     : op.kind == OpKind::kUpdate ? summary_.update
                                  : summary_.backward) += work;
    if (op.group != kNone) summary_.groups[op.group].flops += work;
    if (op.is_backward()) add_saved(op);
  }

  // Once per storage and forward op; state that lives anyway does not count.
  void add_saved(const Op& op) {
    const Op& forward = graph_.ops[op.forward];
    Bytes saved;
    for (std::size_t i = op.gradient_outputs.size(); i < op.inputs.size(); ++i) {
      const TensorId root = graph_.tensors[op.inputs[i]].alias_of;
      const TensorId id = root == kNone ? op.inputs[i] : root;
      const TensorRole role = graph_.tensors[id].role;
      if (kept_[id] != 0 || (role != TensorRole::kActivation && role != TensorRole::kInput)) continue;
      kept_[id] = 1;
      saved += bytes(id);
    }
    if (extras_.insert(op.forward).second) {
      std::vector<std::int32_t> places;
      for (std::size_t place = 0; place < forward.inputs.size(); ++place) {
        if (graph_.tensors[forward.inputs[place]].requires_gradient) places.push_back(static_cast<std::int32_t>(place));
      }
      saved += saved_for_backward(graph_, forward, places).extra(summary_.batch);
    }
    summary_.saved += saved;
    if (op.group != kNone) summary_.groups[op.group].saved += saved;
  }

  const Graph& graph_;
  GraphSummary summary_;
  std::vector<char> kept_;
  std::set<OpId> extras_;
};

}  // namespace

GraphSummary summarize(const Graph& graph, std::int64_t batch) { return Summarizer(graph, batch).run(); }

std::string to_text(const GraphSummary& summary) {
  std::ostringstream out;
  out << summary.name << "\n";
  for (const InputSummary& input : summary.inputs) {
    out << "  input             " << input.name << " " << to_string(input.dtype) << " (";
    for (std::size_t i = 0; i < input.shape.size(); ++i) out << (i == 0 ? "" : ", ") << input.shape[i];
    out << ")\n";
  }
  out << "  parameters        " << summary.parameters << "\n  ops               ";
  const char* separator = "";
  for (const auto& [kind, count] : summary.ops_by_kind) {
    out << separator << count << " " << kind;
    separator = ", ";
  }
  out << "\n  at batch size " << summary.batch << ":\n  forward           " << to_string(summary.forward)
      << "\n  backward          " << to_string(summary.backward) << "\n  update            "
      << to_string(summary.update) << "\n  weights           " << to_string(summary.weights) << "\n  buffers           "
      << to_string(summary.buffers) << "\n  gradients         " << to_string(summary.gradients)
      << "\n  optimizer states  " << to_string(summary.optimizer_states) << "\n  kept activations  "
      << to_string(summary.saved) << "\n  op groups         " << summary.groups.size() << "\n\n";
  std::size_t width = 5;
  for (const GroupSummary& group : summary.groups) width = std::max(width, group.name.size());
  const auto row = [&](const auto& name, const auto& ops, const auto& parameters, const auto& work, const auto& saved,
                       const auto& output) {
    out << "  " << std::left << std::setw(static_cast<int>(width)) << name << std::right << std::setw(6) << ops
        << std::setw(14) << parameters << std::setw(14) << work << std::setw(12) << saved << std::setw(12) << output
        << "\n";
  };
  row("group", "ops", "parameters", "FLOPs", "kept", "output");
  for (const GroupSummary& group : summary.groups) {
    row(group.name, group.ops, group.parameters, to_string(group.flops), to_string(group.saved),
        to_string(group.output));
  }
  return out.str();
}

std::string to_json(const GraphSummary& summary) {
  nlohmann::ordered_json json = {{"name", summary.name},
                                 {"fingerprint", summary.fingerprint},
                                 {"batch", summary.batch},
                                 {"inputs", nlohmann::ordered_json::array()},
                                 {"parameters", summary.parameters},
                                 {"ops_by_kind", summary.ops_by_kind},
                                 {"ops_by_target", summary.ops_by_target},
                                 {"forward_flops", summary.forward.value},
                                 {"backward_flops", summary.backward.value},
                                 {"update_flops", summary.update.value},
                                 {"weight_bytes", summary.weights.value},
                                 {"buffer_bytes", summary.buffers.value},
                                 {"gradient_bytes", summary.gradients.value},
                                 {"optimizer_state_bytes", summary.optimizer_states.value},
                                 {"saved_bytes", summary.saved.value},
                                 {"groups", nlohmann::ordered_json::array()}};
  for (const InputSummary& input : summary.inputs) {
    json["inputs"].push_back({{"name", input.name}, {"dtype", to_string(input.dtype)}, {"shape", input.shape}});
  }
  for (const GroupSummary& group : summary.groups) {
    json["groups"].push_back({{"name", group.name},
                              {"ops", group.ops},
                              {"parameters", group.parameters},
                              {"flops", group.flops.value},
                              {"saved_bytes", group.saved.value},
                              {"output_bytes", group.output.value}});
  }
  return json.dump();
}

}  // namespace motley
