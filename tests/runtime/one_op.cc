#include "tests/runtime/one_op.h"

#include <algorithm>
#include <utility>

namespace motley {
namespace {

TensorId add_tensor(Graph& graph, std::string name, const Shape& shape, TensorRole role, DType dtype, OpId producer) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.shape = shape;
  tensor.role = role;
  tensor.dtype = dtype;
  tensor.producer = producer;
  graph.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph.tensors.size() - 1);
}

OpId add_backward(Graph& graph, OpKind kind, const std::vector<std::int32_t>& places) {
  if (places.empty()) return kNone;
  const auto id = static_cast<OpId>(graph.ops.size());
  const Op forward = graph.ops[0];
  const Shape output_shape = graph.tensors[forward.outputs[0]].shape;
  Op op;
  op.kind = kind;
  op.name = kind == OpKind::kInputGradient ? "op.dx" : "op.dw";
  op.target = forward.target;
  op.forward = 0;
  op.gradient_outputs = {0};
  op.gradient_inputs = places;
  op.inputs = {add_tensor(graph, op.name + ".seed", output_shape, TensorRole::kGradient, DType::kFloat32, kNone)};
  for (std::int32_t place : places) {
    const Shape shape = graph.tensors[forward.inputs[place]].shape;
    op.outputs.push_back(
        add_tensor(graph, op.name + std::to_string(place), shape, TensorRole::kGradient, DType::kFloat32, id));
  }
  graph.ops.push_back(std::move(op));
  return id;
}

template <class Number>
HostTensor host_tensor(DType dtype, std::vector<std::int64_t> sizes, const std::vector<Number>& values) {
  HostTensor tensor = make_host_tensor(dtype, std::move(sizes));
  std::copy(values.begin(), values.end(), elements<Number>(tensor).begin());
  return tensor;
}

}  // namespace

OneOp::OneOp(std::string target, std::vector<Argument> arguments, std::vector<OneOpInput> inputs,
             std::vector<Shape> outputs) {
  Op op;
  op.name = "op";
  op.target = std::move(target);
  op.arguments = std::move(arguments);
  op.source = "model.py:7 in forward";
  std::vector<std::int32_t> activations;
  std::vector<std::int32_t> parameters;
  for (const OneOpInput& input : inputs) {
    const auto place = static_cast<std::int32_t>(op.inputs.size());
    op.inputs.push_back(add_tensor(graph, "in" + std::to_string(place), input.shape, input.role, input.dtype, kNone));
    if (!is_floating(input.dtype)) continue;
    if (input.role == TensorRole::kActivation) activations.push_back(place);
    if (input.role == TensorRole::kParameter) parameters.push_back(place);
  }
  for (const Shape& shape : outputs) {
    const std::string name = "out" + std::to_string(op.outputs.size());
    op.outputs.push_back(add_tensor(graph, name, shape, TensorRole::kActivation, DType::kFloat32, 0));
  }
  graph.min_batch = 2;
  graph.ops.push_back(std::move(op));
  dx = add_backward(graph, OpKind::kInputGradient, activations);
  dw = add_backward(graph, OpKind::kWeightGradient, parameters);
}

HostTensor floats(std::vector<std::int64_t> sizes, const std::vector<float>& values) {
  return host_tensor(DType::kFloat32, std::move(sizes), values);
}
HostTensor integers(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  return host_tensor(DType::kInt64, std::move(sizes), values);
}
std::vector<float> values_of(Executor& executor, const TensorHandle& tensor) {
  const HostTensor host = executor.to_host(tensor);
  const auto values = elements<float>(host);
  return {values.begin(), values.end()};
}

}  // namespace motley
