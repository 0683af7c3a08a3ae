#include "graph/serialize.h"

#include <utility>

#include "base/error.h"
#include "proto/graph.pb.h"

namespace motley {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

template <class Enum>
Enum checked(std::uint32_t number, Enum last, const char* what) {
  if (number > static_cast<std::uint32_t>(last)) {
    throw Error(ErrorKind::kInvalidInput, std::string("graph: ") + what + " " + std::to_string(number) +
                                              " is not known to this motley: use the version that wrote it");
  }
  return static_cast<Enum>(number);
}

template <class Repeated, class Values>
void put(Repeated* field, const Values& values) {
  field->Reserve(static_cast<int>(values.size()));
  for (const auto& value : values) field->Add(value);
}
template <class Value, class Repeated>
std::vector<Value> get(const Repeated& field) {
  return std::vector<Value>(field.begin(), field.end());
}

void put_expr(proto::BatchExpr* message, const BatchExpr& expr) {
  put(message->mutable_coefficients(), expr.coefficients());
}
BatchExpr get_expr(const proto::BatchExpr& message) {
  return BatchExpr::from_coefficients(get<std::int64_t>(message.coefficients()));
}

void put_value(proto::Argument* message, const ArgumentValue& value) {
  std::visit(Overloaded{
                 [&](std::monostate) { message->mutable_none(); },
                 [&](InputRef input) { message->set_input(input.index); },
                 [&](const std::vector<InputRef>& inputs) {
                   message->mutable_inputs();
                   for (InputRef input : inputs) message->mutable_inputs()->add_indices(input.index);
                 },
                 [&](const BatchExpr& size) { put_expr(message->mutable_size(), size); },
                 [&](const std::vector<BatchExpr>& sizes) {
                   message->mutable_sizes();
                   for (const BatchExpr& size : sizes) put_expr(message->mutable_sizes()->add_values(), size);
                 },
                 [&](double real) { message->set_real(real); },
                 [&](const std::vector<double>& reals) { put(message->mutable_reals()->mutable_values(), reals); },
                 [&](bool flag) { message->set_flag(flag); },
                 [&](const std::vector<bool>& flags) {
                   message->mutable_flags();
                   for (bool flag : flags) message->mutable_flags()->add_values(flag);
                 },
                 [&](const std::string& text) { message->set_text(text); },
                 [&](DType dtype) { message->set_dtype(static_cast<std::uint32_t>(dtype)); },
                 [&](MemoryFormat format) { message->set_memory_format(static_cast<std::uint32_t>(format)); },
                 [&](DeviceArgument) { message->mutable_device(); },
                 [&](LayoutArgument) { message->mutable_layout(); },
             },
             value);
}

ArgumentValue get_value(const proto::Argument& message) {
  switch (message.value_case()) {
    case proto::Argument::kNone:
      return std::monostate();
    case proto::Argument::kInput:
      return InputRef{message.input()};
    case proto::Argument::kInputs: {
      std::vector<InputRef> inputs;
      for (std::int32_t index : message.inputs().indices()) inputs.push_back(InputRef{index});
      return inputs;
    }
    case proto::Argument::kSize:
      return get_expr(message.size());
    case proto::Argument::kSizes: {
      std::vector<BatchExpr> sizes;
      for (const proto::BatchExpr& size : message.sizes().values()) sizes.push_back(get_expr(size));
      return sizes;
    }
    case proto::Argument::kReal:
      return message.real();
    case proto::Argument::kReals:
      return get<double>(message.reals().values());
    case proto::Argument::kFlag:
      return message.flag();
    case proto::Argument::kFlags:
      return get<bool>(message.flags().values());
    case proto::Argument::kText:
      return message.text();
    case proto::Argument::kDtype:
      return checked(message.dtype(), DType::kBool, "dtype");
    case proto::Argument::kMemoryFormat:
      return checked(message.memory_format(), MemoryFormat::kChannelsLast3d, "memory format");
    case proto::Argument::kDevice:
      return DeviceArgument();
    case proto::Argument::kLayout:
      return LayoutArgument();
    case proto::Argument::VALUE_NOT_SET:
      break;
  }
  throw Error(ErrorKind::kInvalidInput, "graph: argument " + message.name() + " has no value: the file is damaged");
}

void put_tensor(proto::Tensor* message, const Tensor& tensor) {
  message->set_name(tensor.name);
  message->set_dtype(static_cast<std::uint32_t>(tensor.dtype));
  for (const BatchExpr& size : tensor.shape) put_expr(message->add_shape(), size);
  message->set_role(static_cast<std::uint32_t>(tensor.role));
  message->mutable_layout()->set_kind(static_cast<std::uint32_t>(tensor.layout.kind));
  message->mutable_layout()->set_dim(tensor.layout.dim);
  message->mutable_layout()->set_outer(tensor.layout.outer);
  message->set_producer(tensor.producer);
  message->set_alias_of(tensor.alias_of);
  message->set_gradient_of(tensor.gradient_of);
  message->set_requires_gradient(tensor.requires_gradient);
  message->set_state_of(tensor.state_of);
}

Tensor get_tensor(const proto::Tensor& message) {
  Tensor tensor;
  tensor.name = message.name();
  tensor.dtype = checked(message.dtype(), DType::kBool, "dtype");
  for (const proto::BatchExpr& size : message.shape()) tensor.shape.push_back(get_expr(size));
  tensor.role = checked(message.role(), TensorRole::kGradient, "tensor role");
  tensor.layout.kind = checked(message.layout().kind(), BatchLayout::Kind::kMixed, "batch layout");
  tensor.layout.dim = message.layout().dim();
  tensor.layout.outer = message.layout().outer();
  tensor.producer = message.producer();
  tensor.alias_of = message.alias_of();
  tensor.gradient_of = message.gradient_of();
  tensor.requires_gradient = message.requires_gradient();
  tensor.state_of = message.state_of();
  return tensor;
}

void put_op(proto::Op* message, const Op& op) {
  message->set_kind(static_cast<std::uint32_t>(op.kind));
  message->set_name(op.name);
  message->set_target(op.target);
  for (const Argument& argument : op.arguments) {
    proto::Argument* added = message->add_arguments();
    added->set_name(argument.name);
    put_value(added, argument.value);
  }
  put(message->mutable_inputs(), op.inputs);
  put(message->mutable_outputs(), op.outputs);
  put(message->mutable_writes(), op.writes);
  put(message->mutable_completes(), op.completes);
  message->set_forward(op.forward);
  put(message->mutable_gradient_outputs(), op.gradient_outputs);
  put(message->mutable_gradient_inputs(), op.gradient_inputs);
  message->set_group(op.group);
  message->set_is_view(op.is_view);
  message->set_random(op.random);
  message->set_source(op.source);
  message->set_module(op.module);
}

Op get_op(const proto::Op& message) {
  Op op;
  op.kind = checked(message.kind(), OpKind::kUpdate, "op kind");
  op.name = message.name();
  op.target = message.target();
  for (const proto::Argument& argument : message.arguments()) {
    op.arguments.push_back(Argument{argument.name(), get_value(argument)});
  }
  op.inputs = get<TensorId>(message.inputs());
  op.outputs = get<TensorId>(message.outputs());
  op.writes = get<TensorId>(message.writes());
  op.completes = get<std::int32_t>(message.completes());
  op.forward = message.forward();
  op.gradient_outputs = get<std::int32_t>(message.gradient_outputs());
  op.gradient_inputs = get<std::int32_t>(message.gradient_inputs());
  op.group = message.group();
  op.is_view = message.is_view();
  op.random = message.random();
  op.source = message.source();
  op.module = message.module();
  return op;
}

// References come from outside here, so they are bad input and not a fault of ours.
void check_references(const Graph& graph) {
  const auto require = [&](std::int64_t index, std::size_t size, bool optional) {
    if ((index != kNone || !optional) && (index < 0 || index >= static_cast<std::int64_t>(size))) {
      throw Error(ErrorKind::kInvalidInput, "graph " + graph.name + ": reference " + std::to_string(index) + " of " +
                                                std::to_string(size) + " is out of range: the file is damaged");
    }
  };
  const auto require_all = [&](const auto& indices, std::size_t size, bool optional) {
    for (std::int32_t index : indices) require(index, size, optional);
  };
  for (const Tensor& tensor : graph.tensors) {
    require(tensor.producer, graph.ops.size(), true);
    for (TensorId id : {tensor.alias_of, tensor.gradient_of, tensor.state_of}) require(id, graph.tensors.size(), true);
  }
  for (const Op& op : graph.ops) {
    require_all(op.inputs, graph.tensors.size(), false);
    require_all(op.outputs, graph.tensors.size(), true);
    require_all(op.writes, graph.tensors.size(), false);
    require_all(op.completes, op.inputs.size(), false);
    require(op.forward, graph.ops.size(), true);
    require(op.group, graph.groups.size(), true);
  }
  for (const OpGroup& group : graph.groups) {
    require_all(group.ops, graph.ops.size(), false);
    require_all(group.parameters, graph.tensors.size(), false);
  }
  require_all(graph.inputs, graph.tensors.size(), false);
  require(graph.loss, graph.tensors.size(), true);
}

}  // namespace

proto::Graph to_proto(const Graph& graph) {
  proto::Graph message;
  message.set_name(graph.name);
  message.set_format_version(kGraphFormatVersion);
  for (const Tensor& tensor : graph.tensors) put_tensor(message.add_tensors(), tensor);
  for (const Op& op : graph.ops) put_op(message.add_ops(), op);
  for (const OpGroup& group : graph.groups) {
    proto::OpGroup* added = message.add_groups();
    added->set_name(group.name);
    put(added->mutable_ops(), group.ops);
    put(added->mutable_parameters(), group.parameters);
  }
  put(message.mutable_inputs(), graph.inputs);
  message.set_loss(graph.loss);
  message.set_min_batch(graph.min_batch);
  message.set_max_batch(graph.max_batch);
  proto::OptimizerOptions* optimizer = message.mutable_optimizer();
  optimizer->set_kind(static_cast<std::uint32_t>(graph.optimizer.kind));
  optimizer->set_learning_rate(graph.optimizer.learning_rate);
  optimizer->set_momentum(graph.optimizer.momentum);
  optimizer->set_beta1(graph.optimizer.beta1);
  optimizer->set_beta2(graph.optimizer.beta2);
  optimizer->set_epsilon(graph.optimizer.epsilon);
  optimizer->set_weight_decay(graph.optimizer.weight_decay);
  message.set_fingerprint(graph.fingerprint);
  return message;
}

Graph graph_from_proto(const proto::Graph& message) {
  if (message.format_version() != kGraphFormatVersion) {
    throw Error(ErrorKind::kInvalidInput, "graph " + message.name() + " has format version " +
                                              std::to_string(message.format_version()) +
                                              ", this motley reads version " + std::to_string(kGraphFormatVersion) +
                                              ": make it again, or use the motley that wrote it");
  }
  Graph graph;
  graph.name = message.name();
  for (const proto::Tensor& tensor : message.tensors()) graph.tensors.push_back(get_tensor(tensor));
  for (const proto::Op& op : message.ops()) graph.ops.push_back(get_op(op));
  for (const proto::OpGroup& group : message.groups()) {
    graph.groups.push_back(OpGroup{group.name(), get<OpId>(group.ops()), get<TensorId>(group.parameters())});
  }
  graph.inputs = get<TensorId>(message.inputs());
  graph.loss = message.loss();
  graph.min_batch = message.min_batch();
  graph.max_batch = message.max_batch();
  const proto::OptimizerOptions& optimizer = message.optimizer();
  graph.optimizer.kind = checked(optimizer.kind(), OptimizerOptions::Kind::kAdamW, "optimizer");
  graph.optimizer.learning_rate = optimizer.learning_rate();
  graph.optimizer.momentum = optimizer.momentum();
  graph.optimizer.beta1 = optimizer.beta1();
  graph.optimizer.beta2 = optimizer.beta2();
  graph.optimizer.epsilon = optimizer.epsilon();
  graph.optimizer.weight_decay = optimizer.weight_decay();
  graph.fingerprint = message.fingerprint();
  check_references(graph);
  graph.finish();
  return graph;
}

std::string serialize(const Graph& graph) { return to_proto(graph).SerializeAsString(); }

Graph deserialize_graph(std::string_view bytes, const std::string& source) {
  proto::Graph message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorKind::kInvalidInput, source + ": not a training graph of motley, or damaged: make it again");
  }
  return graph_from_proto(message);
}

}  // namespace motley
