#include "tests/profiler/test_graph.h"

#include <string>

#include "tests/support/forward_graph.h"

namespace motley {
namespace {

// A forward graph, and its backward and update ops.
class Builder : public support::ForwardGraph {
 public:
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
      made.outputs.push_back(gradient_tensor(name, of));
    }
    return push(made).outputs;
  }

  void update(TensorId parameter, TensorId gradient) {
    Op made;
    made.kind = OpKind::kUpdate;
    made.name = graph.tensors[parameter].name + ".update";
    made.target = "sgd";
    made.inputs = {parameter, gradient};
    made.writes = {parameter};
    push(made);
  }

  TensorId gradient_tensor(const std::string& name, TensorId of) {
    const TensorId id = tensor(name, graph.tensors[of].shape, DType::kFloat32, TensorRole::kGradient);
    graph.tensors[id].gradient_of = of;
    return id;
  }

  OpId last() const { return static_cast<OpId>(graph.ops.size()) - 1; }

 private:
  const Op& push(const Op& op) {
    for (const TensorId output : op.outputs) graph.tensors[output].producer = static_cast<OpId>(graph.ops.size());
    graph.ops.push_back(op);
    return graph.ops.back();
  }
};

}  // namespace

Graph make_mlp(int layers, std::int64_t width) {
  Builder b;
  const BatchExpr batch = BatchExpr::batch();
  const Shape activation{batch, width};
  TensorId x = b.input("x", activation);
  struct Layer {
    TensorId weight, bias;
    OpId mm, add, relu;
  };
  std::vector<Layer> made;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    Layer layer{};
    layer.weight = b.parameter(name + ".weight", {width, width});
    layer.bias = b.parameter(name + ".bias", {width});
    x = b.op(name + ".mm", "aten::mm.default", {{"self", InputRef{0}}, {"mat2", InputRef{1}}}, {x, layer.weight},
             activation);
    layer.mm = b.last();
    x = b.simple(name + ".add", "aten::add.Tensor", {x, layer.bias}, activation);
    layer.add = b.last();
    x = b.simple(name + ".relu", "aten::relu.default", {x}, activation);
    layer.relu = b.last();
    made.push_back(layer);
  }
  b.graph.loss = b.simple("mean", "aten::mean.default", {x}, {});
  const OpId mean = b.last();
  TensorId gradient = b.backward(OpKind::kInputGradient, mean, b.gradient_tensor("seed", b.graph.loss), {0})[0];
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
