#include "graph/autodiff.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/op_knowledge.h"

namespace motley {
namespace {

BatchLayout gradient_layout(const BatchLayout& layout) {
  using Kind = BatchLayout::Kind;
  switch (layout.kind) {
    case Kind::kSplit:
    case Kind::kMixed:
      return layout;
    case Kind::kIndependent:
    case Kind::kPartialMean:
      return {Kind::kPartialSum};
    case Kind::kPartialSum:
      return {Kind::kIndependent};
  }
  return {};
}

class Differentiation {
 public:
  explicit Differentiation(Graph& graph) : graph_(graph), parts_(graph.tensors.size()) {}

  void run(const OptimizerOptions& optimizer) {
    graph_.optimizer = optimizer;
    mark_gradients();
    if (graph_.loss == kNone || !graph_.tensors[graph_.loss].requires_gradient) refuse();
    const std::size_t forward_count = graph_.ops.size();
    find_first_uses();
    const TensorId seed = gradient_tensor(graph_.loss, graph_.tensors[graph_.loss].name + ".seed");
    parts_[graph_.loss] = {seed};
    for (std::size_t id = forward_count; id-- > 0;) {
      backward(static_cast<OpId>(id));
      for (TensorId parameter : first_uses_[id]) {
        if (!parts_[parameter].empty()) whole_gradient(parameter);
      }
    }
    const auto count = static_cast<TensorId>(parts_.size());
    for (TensorId id = 0; id < count; ++id) {
      if (graph_.tensors[id].role == TensorRole::kParameter && !parts_[id].empty()) update(id);
    }
    graph_.finish();
  }

 private:
  Tensor& at(TensorId id) { return graph_.tensors[id]; }

  // The model says where gradients are wanted (not under torch.no_grad); they end at ops that have none.
  void mark_gradients() {
    for (const Op& op : graph_.ops) {
      const bool flows =
          facts_of(op.target).differentiable &&
          std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) { return at(input).requires_gradient; });
      for (TensorId output : op.outputs) {
        if (output == kNone || (flows && is_floating(at(output).dtype))) continue;
        at(output).requires_gradient = false;
      }
    }
  }

  // Where gradients stop on the way from parameters to the loss.
  [[noreturn]] void refuse() {
    std::string where;
    for (const Op& op : graph_.ops) {
      const bool reached =
          std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) { return at(input).requires_gradient; });
      if (reached && !facts_of(op.target).differentiable) {
        where = "; gradients stop at " + op.name + " (" + op.target + ")" + (op.source.empty() ? "" : ", " + op.source);
      }
    }
    throw Error(ErrorKind::kUnsupported, graph_.name + ": no gradient of the loss reaches a parameter" + where +
                                             ": make the model return a loss that is differentiable in its parameters");
  }

  void find_first_uses() {
    first_uses_.resize(graph_.ops.size());
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      if (graph_.tensors[id].role != TensorRole::kParameter || graph_.consumers[id].empty()) continue;
      first_uses_[graph_.consumers[id].front()].push_back(static_cast<TensorId>(id));
    }
  }

  TensorId gradient_tensor(TensorId of, std::string name) {
    Tensor gradient;
    gradient.name = std::move(name);
    gradient.dtype = at(of).dtype;
    gradient.shape = at(of).shape;
    gradient.role = TensorRole::kGradient;
    gradient.layout = gradient_layout(at(of).layout);
    gradient.gradient_of = of;
    graph_.tensors.push_back(std::move(gradient));
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  void push(Op op) {
    for (TensorId output : op.outputs) {
      if (output != kNone) at(output).producer = static_cast<OpId>(graph_.ops.size());
    }
    graph_.ops.push_back(std::move(op));
  }

  // The tensor's gradient in one piece, made now if it has several parts.
  TensorId whole_gradient(TensorId of) {
    std::vector<TensorId>& parts = parts_[of];
    if (parts.size() > 1) {
      Op sum;
      sum.kind = OpKind::kGradientSum;
      sum.name = at(of).name + ".grad";
      sum.target = "sum";
      sum.inputs = parts;
      sum.outputs = {gradient_tensor(of, sum.name)};
      parts = {sum.outputs[0]};
      push(std::move(sum));
    }
    return parts[0];
  }

  void backward(OpId id) {
    Op common;
    {
      const Op& op = graph_.ops[id];
      common.target = op.target;
      common.forward = id;
      common.source = op.source;
      common.module = op.module;
    }
    const std::vector<TensorId> outputs = graph_.ops[id].outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNone || static_cast<std::size_t>(outputs[i]) >= parts_.size() || parts_[outputs[i]].empty()) {
        continue;
      }
      common.inputs.push_back(whole_gradient(outputs[i]));
      common.gradient_outputs.push_back(static_cast<std::int32_t>(i));
    }
    if (common.inputs.empty()) return;

    const Op forward = graph_.ops[id];
    std::vector<std::int32_t> activations;
    std::vector<std::int32_t> weights;
    std::vector<std::int32_t> all;
    for (std::size_t place = 0; place < forward.inputs.size(); ++place) {
      const Tensor& input = at(forward.inputs[place]);
      if (!input.requires_gradient) continue;
      (input.role == TensorRole::kParameter ? weights : activations).push_back(static_cast<std::int32_t>(place));
      all.push_back(static_cast<std::int32_t>(place));
    }
    if (all.empty()) return;
    for (TensorId saved : saved_for_backward(graph_, forward, all).tensors) {
      if (std::find(common.inputs.begin(), common.inputs.end(), saved) == common.inputs.end()) {
        common.inputs.push_back(saved);
      }
    }
    if (!activations.empty()) gradients(common, forward, OpKind::kInputGradient, ".dx", activations);
    if (!weights.empty()) gradients(common, forward, OpKind::kWeightGradient, ".dw", weights);
  }

  void gradients(Op op, const Op& forward, OpKind kind, const char* suffix, const std::vector<std::int32_t>& places) {
    op.kind = kind;
    op.name = forward.name + suffix;
    op.gradient_inputs = places;
    bool all_views = true;
    for (std::int32_t place : places) {
      const TensorId of = forward.inputs[place];
      const TensorId gradient = gradient_tensor(of, forward.name + ".d" + std::to_string(place));
      op.outputs.push_back(gradient);
      parts_[of].push_back(gradient);
      if (kind == OpKind::kInputGradient && passes_through(forward, op.inputs[0], gradient)) {
        const TensorId root = at(op.inputs[0]).alias_of;
        at(gradient).alias_of = root == kNone ? op.inputs[0] : root;
      } else {
        all_views = false;
      }
    }
    op.is_view = all_views;
    push(std::move(op));
  }

  // Whether autograd hands on the output's gradient itself, or a view of it.
  bool passes_through(const Op& forward, TensorId incoming, TensorId gradient) {
    if (at(gradient).dtype != at(incoming).dtype || at(gradient).layout.kind != BatchLayout::Kind::kSplit) return false;
    if (forward.is_view && facts_of(forward.target).gradient_is_view) return true;
    return functional_name(forward.target) == "add" && integer_argument(forward, "alpha", 1) == 1 &&
           at(gradient).shape == at(incoming).shape;
  }

  TensorId state(TensorId parameter, const std::string& what, bool scalar) {
    Tensor state;
    state.name = "optimizer." + at(parameter).name + "." + what;
    state.dtype = scalar ? DType::kFloat32 : at(parameter).dtype;
    if (!scalar) state.shape = at(parameter).shape;
    state.role = TensorRole::kOptimizerState;
    state.state_of = parameter;
    graph_.tensors.push_back(std::move(state));
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  void update(TensorId parameter) {
    Op op;
    op.kind = OpKind::kUpdate;
    op.name = at(parameter).name + ".update";
    op.inputs = {parameter, whole_gradient(parameter)};
    op.writes = {parameter};
    const OptimizerOptions& optimizer = graph_.optimizer;
    std::vector<TensorId> states;
    switch (optimizer.kind) {
      case OptimizerOptions::Kind::kSgd:
        op.target = "sgd";
        if (optimizer.momentum != 0) states = {state(parameter, "momentum_buffer", false)};
        break;
      case OptimizerOptions::Kind::kAdam:
      case OptimizerOptions::Kind::kAdamW:
        op.target = optimizer.kind == OptimizerOptions::Kind::kAdam ? "adam" : "adamw";
        states = {state(parameter, "exp_avg", false), state(parameter, "exp_avg_sq", false),
                  state(parameter, "step", true)};
        break;
    }
    op.inputs.insert(op.inputs.end(), states.begin(), states.end());
    op.writes.insert(op.writes.end(), states.begin(), states.end());
    push(std::move(op));
  }

  Graph& graph_;
  std::vector<std::vector<TensorId>> parts_;       // by forward tensor: parts of its gradient made so far
  std::vector<std::vector<TensorId>> first_uses_;  // by forward op: parameters that no earlier op uses
};

}  // namespace

void differentiate(Graph& graph, const OptimizerOptions& optimizer) { Differentiation(graph).run(optimizer); }

}  // namespace motley
