#pragma once

// Forward graphs written by hand, for tests.

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace motley::support {

inline const BatchExpr kB = BatchExpr::batch();

class ForwardGraph {
 public:
  Graph graph;

  TensorId tensor(const std::string& name, Shape shape, DType dtype, TensorRole role) {
    Tensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    tensor.dtype = dtype;
    tensor.role = role;
    graph.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(graph.tensors.size() - 1);
  }
  TensorId input(const std::string& name, Shape shape, DType dtype = DType::kFloat32) {
    graph.inputs.push_back(tensor(name, std::move(shape), dtype, TensorRole::kInput));
    return graph.inputs.back();
  }
  TensorId parameter(const std::string& name, Shape shape) {
    const TensorId id = tensor(name, std::move(shape), DType::kFloat32, TensorRole::kParameter);
    graph.tensors[id].requires_gradient = true;
    return id;
  }
  TensorId constant(const std::string& name, Shape shape, DType dtype = DType::kFloat32) {
    return tensor(name, std::move(shape), dtype, TensorRole::kConstant);
  }

  // An op of one output named like it; its tensor arguments are those of `arguments` that are InputRef, in order.
  TensorId op(const std::string& name, const std::string& target, std::vector<Argument> arguments,
              std::vector<TensorId> inputs, Shape shape, DType dtype = DType::kFloat32) {
    return several(name, target, std::move(arguments), std::move(inputs), {{std::move(shape), dtype}})[0];
  }
  std::vector<TensorId> several(const std::string& name, const std::string& target, std::vector<Argument> arguments,
                                std::vector<TensorId> inputs, const std::vector<std::pair<Shape, DType>>& outputs) {
    Op op;
    op.name = name;
    op.target = target;
    op.arguments = std::move(arguments);
    op.inputs = std::move(inputs);
    bool gradient = false;
    for (TensorId input : op.inputs) gradient = gradient || graph.tensors[input].requires_gradient;
    for (const auto& [shape, dtype] : outputs) {
      op.outputs.push_back(tensor(name, shape, dtype, TensorRole::kActivation));
      graph.tensors[op.outputs.back()].requires_gradient = gradient && is_floating(dtype);
      graph.tensors[op.outputs.back()].producer = static_cast<OpId>(graph.ops.size());
    }
    graph.ops.push_back(op);
    return op.outputs;
  }
  // ... whose arguments are "self" and, when there are two inputs, "other".
  TensorId simple(const std::string& name, const std::string& target, std::vector<TensorId> inputs, Shape shape,
                  DType dtype = DType::kFloat32) {
    std::vector<Argument> arguments = {{"self", InputRef{0}}};
    if (inputs.size() > 1) arguments.push_back({"other", InputRef{1}});
    return op(name, target, std::move(arguments), std::move(inputs), std::move(shape), dtype);
  }
  TensorId view(const std::string& name, const std::string& target, std::vector<Argument> arguments, TensorId input,
                Shape shape) {
    const TensorId root = graph.tensors[input].alias_of;
    arguments.insert(arguments.begin(), {"self", InputRef{0}});
    const TensorId id = op(name, target, std::move(arguments), {input}, std::move(shape), graph.tensors[input].dtype);
    graph.ops.back().is_view = true;
    graph.tensors[id].alias_of = root == kNone ? input : root;
    return id;
  }
  TensorId linear(const std::string& name, TensorId input, TensorId weight, TensorId bias, Shape shape) {
    std::vector<Argument> arguments = {{"input", InputRef{0}}, {"weight", InputRef{1}}};
    std::vector<TensorId> inputs = {input, weight};
    if (bias != kNone) {
      arguments.push_back({"bias", InputRef{2}});
      inputs.push_back(bias);
    }
    return op(name, "aten::linear.default", std::move(arguments), std::move(inputs), std::move(shape));
  }

  BatchLayout layout(TensorId id) const { return graph.tensors[id].layout; }
};

}  // namespace motley::support
