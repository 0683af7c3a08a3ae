#include "imports/layers.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "graph/fingerprint.h"

namespace motley {
namespace {

using Kind = BatchLayout::Kind;
constexpr const char* kLossTarget = "loss";

std::int64_t floats(Bytes bytes) { return (bytes.value + 3) / 4; }

class LayerGraphBuilder {
 public:
  LayerGraphBuilder(const std::string& name, const std::vector<Layer>& layers) : layers_(layers) {
    graph_.name = name;
    graph_.optimizer.kind = OptimizerOptions::Kind::kAdam;
  }

  Graph build() {
    batch_ = tensor("batch", {BatchExpr::batch()}, TensorRole::kInput, Kind::kSplit);
    graph_.inputs = {batch_};
    taken_.assign(layers_.size(), false);
    weight_gradients_.assign(layers_.size(), kNone);
    for (const Layer& layer : layers_) add_layer(layer);
    add_loss();
    add_loss_gradient();
    for (auto layer = static_cast<std::int32_t>(layers_.size()); layer-- > 0;) add_backward(layer);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) add_update(static_cast<std::int32_t>(layer));
    graph_.finish();
    graph_.fingerprint = fingerprint_of(graph_);
    return std::move(graph_);
  }

 private:
  TensorId tensor(std::string name, Shape shape, TensorRole role, Kind kind, TensorId gradient_of = kNone) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    tensor.role = role;
    tensor.layout.kind = kind;
    tensor.gradient_of = gradient_of;
    tensor.requires_gradient = role == TensorRole::kParameter || role == TensorRole::kActivation;
    graph_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  OpId add(Op op) {
    const auto id = static_cast<OpId>(graph_.ops.size());
    for (TensorId output : op.outputs) graph_.tensors[at(output)].producer = id;
    if (op.kind == OpKind::kForward) graph_.groups[at(op.group)].ops.push_back(id);
    graph_.ops.push_back(std::move(op));
    return id;
  }

  void add_layer(const Layer& layer) {
    const auto index = static_cast<std::int32_t>(outputs_.size());
    graph_.groups.emplace_back().name = layer.name;
    trained_.push_back(layer.parameters > Bytes(0));
    Op op;
    op.name = layer.name;
    op.target = "layer";
    op.group = index;
    for (std::int32_t input : layer.inputs) {
      if (input < 0 || input >= index) {
        throw Error(ErrorKind::kInvalidInput,
                    "layer " + layer.name + " takes the output of one that does not stand before it");
      }
      op.inputs.push_back(outputs_[at(input)]);
      taken_[at(input)] = true;
      trained_[at(index)] = trained_[at(index)] || trained_[at(input)];
    }
    if (layer.inputs.empty()) op.inputs.push_back(batch_);
    parameters_.push_back(kNone);
    if (layer.parameters > Bytes(0)) {
      parameters_.back() =
          tensor(layer.name + ".weight", {floats(layer.parameters)}, TensorRole::kParameter, Kind::kIndependent);
      graph_.groups[at(index)].parameters = {parameters_.back()};
      op.inputs.push_back(parameters_.back());
    }
    outputs_.push_back(tensor(layer.name + ".output", {BatchExpr::batch(floats(layer.output))}, TensorRole::kActivation,
                              Kind::kSplit));
    gradients_.emplace_back();
    op.outputs = {outputs_.back()};
    forward_.push_back(add(std::move(op)));
  }

  void add_loss() {
    Op op;
    op.name = kLossTarget;
    op.target = kLossTarget;
    op.group = static_cast<GroupId>(layers_.size() - 1);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      if (taken_[layer]) continue;
      op.inputs.push_back(outputs_[layer]);
      sinks_.push_back(static_cast<std::int32_t>(layer));
    }
    graph_.loss = tensor("loss", {}, TensorRole::kActivation, Kind::kPartialMean);
    op.outputs = {graph_.loss};
    forward_.push_back(add(std::move(op)));
  }

  TensorId gradient(const std::string& name, TensorId of, bool of_parameter) {
    return tensor(name, graph_.tensors[at(of)].shape, TensorRole::kGradient,
                  of_parameter ? Kind::kPartialSum : Kind::kSplit, of);
  }

  void add_loss_gradient() {
    Op op = backward_of(forward_.back(), OpKind::kInputGradient);
    op.inputs = {tensor("loss.seed", {}, TensorRole::kGradient, Kind::kPartialSum, graph_.loss)};
    for (std::size_t i = 0; i < sinks_.size(); ++i) {
      const std::int32_t layer = sinks_[i];
      if (!trained_[at(layer)]) continue;
      op.gradient_inputs.push_back(static_cast<std::int32_t>(i));
      op.outputs.push_back(gradient("loss.d" + std::to_string(i), outputs_[at(layer)], false));
      gradients_[at(layer)] = {op.outputs.back()};
    }
    add(std::move(op));
  }

  Op backward_of(OpId forward, OpKind kind) const {
    Op op;
    op.kind = kind;
    op.name = graph_.ops[at(forward)].name + (kind == OpKind::kInputGradient ? ".dx" : ".dw");
    op.target = graph_.ops[at(forward)].target;
    op.group = graph_.ops[at(forward)].group;
    op.forward = forward;
    op.gradient_outputs = {0};
    return op;
  }

  // Of a layer's output: the gradient from its only consumer, or the sum of theirs.
  TensorId whole_gradient(std::int32_t layer) {
    const std::vector<TensorId>& parts = gradients_[at(layer)];
    if (parts.size() == 1) return parts[0];
    Op sum;
    sum.kind = OpKind::kGradientSum;
    sum.name = layers_[at(layer)].name + ".sum";
    sum.target = "sum";
    sum.group = layer;
    sum.inputs = parts;
    sum.outputs = {gradient(sum.name, outputs_[at(layer)], false)};
    const TensorId whole = sum.outputs[0];
    add(std::move(sum));
    return whole;
  }

  void add_backward(std::int32_t layer) {
    if (!trained_[at(layer)]) return;
    const std::vector<std::int32_t>& inputs = layers_[at(layer)].inputs;
    const OpId forward = forward_[at(layer)];
    std::vector<TensorId> needs = {whole_gradient(layer)};
    for (std::int32_t input : inputs) needs.push_back(outputs_[at(input)]);
    if (std::ranges::any_of(inputs, [&](std::int32_t input) { return trained_[at(input)]; })) {
      Op dx = backward_of(forward, OpKind::kInputGradient);
      dx.inputs = needs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!trained_[at(inputs[i])]) continue;
        dx.gradient_inputs.push_back(static_cast<std::int32_t>(i));
        dx.outputs.push_back(gradient(dx.name + std::to_string(i), outputs_[at(inputs[i])], false));
        gradients_[at(inputs[i])].push_back(dx.outputs.back());
      }
      add(std::move(dx));
    }
    if (parameters_[at(layer)] == kNone) return;
    Op dw = backward_of(forward, OpKind::kWeightGradient);
    dw.inputs = std::move(needs);
    dw.gradient_inputs = {static_cast<std::int32_t>(graph_.ops[at(forward)].inputs.size() - 1)};
    dw.outputs = {gradient(dw.name, parameters_[at(layer)], true)};
    weight_gradients_[at(layer)] = dw.outputs.front();
    add(std::move(dw));
  }

  void add_update(std::int32_t layer) {
    const TensorId parameter = parameters_[at(layer)];
    if (parameter == kNone) return;
    Op op;
    op.kind = OpKind::kUpdate;
    op.name = layers_[at(layer)].name + ".update";
    op.target = "adam";
    op.group = layer;
    op.inputs = {parameter, weight_gradients_[at(layer)]};
    op.writes = {parameter};
    for (std::int64_t state = 0; state < layers_[at(layer)].states; ++state) {
      const TensorId made =
          tensor(layers_[at(layer)].name + ".state" + std::to_string(state), graph_.tensors[at(parameter)].shape,
                 TensorRole::kOptimizerState, Kind::kIndependent);
      graph_.tensors[at(made)].state_of = parameter;
      op.inputs.push_back(made);
      op.writes.push_back(made);
    }
    add(std::move(op));
  }

  const std::vector<Layer>& layers_;
  Graph graph_;
  TensorId batch_ = kNone;
  std::vector<TensorId> outputs_, parameters_;    // by layer
  std::vector<TensorId> weight_gradients_;        // likewise; kNone without parameters
  std::vector<OpId> forward_;                     // by layer, then the loss
  std::vector<bool> taken_;                       // by layer: by another
  std::vector<bool> trained_;                     // by layer: its output rests on parameters
  std::vector<std::int32_t> sinks_;               // layers whose output goes into the loss
  std::vector<std::vector<TensorId>> gradients_;  // by layer: parts of its output's gradient
};

}  // namespace

Graph graph_of_layers(const std::string& name, const std::vector<Layer>& layers) {
  if (layers.empty()) throw Error(ErrorKind::kInvalidInput, name + ": there are no layers");
  return LayerGraphBuilder(name, layers).build();
}

std::int32_t layer_of(const Graph& graph, OpId op) {
  const Op& of = graph.ops[at(op)];
  return of.target == kLossTarget ? kNone : of.group;
}

}  // namespace motley
