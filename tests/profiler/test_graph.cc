#include "tests/profiler/test_graph.h"

#include <string>

namespace motley {
namespace {

class Builder {
 public:
  TensorId tensor(const std::string& name, Shape shape, TensorRole role, TensorId gradient_of = kNone) {
    Tensor t;
    t.name = name;
    t.shape = std::move(shape);
    t.role = role;
    t.gradient_of = gradient_of;
    t.requires_gradient = role == TensorRole::kParameter || role == TensorRole::kActivation;
    graph.tensors.push_back(t);
    return static_cast<TensorId>(graph.tensors.size()) - 1;
  }

  OpId op(Op op) {
    const auto id = static_cast<OpId>(graph.ops.size());
    for (const TensorId output : op.outputs) graph.tensors[output].producer = id;
    graph.ops.push_back(std::move(op));
    return id;
  }

  OpId forward(const std::string& name, const std::string& target,
               const std::vector<std::pair<std::string, TensorId>>& inputs, TensorId output) {
    Op made;
    made.name = name;
    made.target = target;
    for (const auto& [argument, input] : inputs) {
      made.arguments.push_back({argument, InputRef{static_cast<std::int32_t>(made.inputs.size())}});
      made.inputs.push_back(input);
    }
    made.outputs = {output};
    return op(made);
  }

  // The gradients of `forward`'s inputs at `places`, from that of its output.
  std::vector<TensorId> backward(OpKind kind, OpId forward, TensorId gradient,
                                 const std::vector<std::int32_t>& places) {
    Op made;
    made.kind = kind;
    made.name = graph.ops[forward].name + (kind == OpKind::kInputGradient ? ".dx" : ".dw");
    made.target = graph.ops[forward].target;
    made.forward = forward;
    made.inputs = {gradient};
    made.gradient_outputs = {0};
    made.gradient_inputs = places;
    for (const std::int32_t place : places) {
      const TensorId of = graph.ops[forward].inputs[place];
      const std::string name = made.name + std::to_string(place);
      made.outputs.push_back(tensor(name, graph.tensors[of].shape, TensorRole::kGradient, of));
    }
    const std::vector<TensorId> outputs = made.outputs;
    op(made);
    return outputs;
  }

  void update(TensorId parameter, TensorId gradient) {
    Op made;
    made.kind = OpKind::kUpdate;
    made.name = graph.tensors[parameter].name + ".update";
    made.target = "sgd";
    made.inputs = {parameter, gradient};
    made.writes = {parameter};
    op(made);
  }

  Graph graph;
};

}  // namespace

Graph make_mlp(int layers, std::int64_t width) {
  Builder b;
  const BatchExpr batch = BatchExpr::batch();
  const Shape activation{batch, width};
  TensorId x = b.tensor("x", activation, TensorRole::kInput);
  b.graph.inputs = {x};
  struct Layer {
    TensorId weight, bias;
    OpId mm, add, relu;
  };
  std::vector<Layer> made;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    Layer layer{};
    layer.weight = b.tensor(name + ".weight", {width, width}, TensorRole::kParameter);
    layer.bias = b.tensor(name + ".bias", {width}, TensorRole::kParameter);
    const TensorId product = b.tensor(name + ".mm", activation, TensorRole::kActivation);
    layer.mm = b.forward(name + ".mm", "aten::mm.default", {{"self", x}, {"mat2", layer.weight}}, product);
    const TensorId sum = b.tensor(name + ".add", activation, TensorRole::kActivation);
    layer.add = b.forward(name + ".add", "aten::add.Tensor", {{"self", product}, {"other", layer.bias}}, sum);
    x = b.tensor(name + ".relu", activation, TensorRole::kActivation);
    layer.relu = b.forward(name + ".relu", "aten::relu.default", {{"self", sum}}, x);
    made.push_back(layer);
  }
  b.graph.loss = b.tensor("loss", {}, TensorRole::kActivation);
  const OpId mean = b.forward("mean", "aten::mean.default", {{"self", x}}, b.graph.loss);
  const TensorId seed = b.tensor("seed", {}, TensorRole::kGradient, b.graph.loss);
  TensorId gradient = b.backward(OpKind::kInputGradient, mean, seed, {0})[0];
  for (int i = layers - 1; i >= 0; --i) {
    const Layer& layer = made[i];
    gradient = b.backward(OpKind::kInputGradient, layer.relu, gradient, {0})[0];
    const TensorId through = b.backward(OpKind::kInputGradient, layer.add, gradient, {0})[0];
    const TensorId bias = b.backward(OpKind::kWeightGradient, layer.add, gradient, {1})[0];
    if (i > 0) gradient = b.backward(OpKind::kInputGradient, layer.mm, through, {0})[0];
    const TensorId weight = b.backward(OpKind::kWeightGradient, layer.mm, through, {1})[0];
    b.update(layer.weight, weight);
    b.update(layer.bias, bias);
  }
  b.graph.name = "mlp";
  b.graph.fingerprint = "mlp" + std::to_string(layers);
  b.graph.groups.push_back({"all", {}, {}});
  for (OpId id = 0; id < static_cast<OpId>(b.graph.ops.size()); ++id) {
    b.graph.ops[id].group = 0;
    if (b.graph.ops[id].kind == OpKind::kForward) b.graph.groups[0].ops.push_back(id);
  }
  b.graph.finish();
  return b.graph;
}

}  // namespace motley
