#include "graph/import.h"

#include "base/error.h"
#include "graph/importer.h"

namespace motley {
namespace {

using Tag = schema::Argument::Tag;

// Calls `visit` with the name of every tensor in an argument.
template <class Visit>
void for_each_tensor(const schema::Argument& argument, const Visit& visit) {
  switch (argument.tag()) {
    case Tag::AS_TENSOR:
      visit(argument.get_as_tensor().get_name());
      break;
    case Tag::AS_TENSORS:
      for (const schema::TensorArgument& tensor : argument.get_as_tensors()) visit(tensor.get_name());
      break;
    case Tag::AS_OPTIONAL_TENSOR:
      if (argument.get_as_optional_tensor().tag() == schema::OptionalTensorArgument::Tag::AS_TENSOR) {
        visit(argument.get_as_optional_tensor().get_as_tensor().get_name());
      }
      break;
    case Tag::AS_OPTIONAL_TENSORS:
      for (const schema::OptionalTensorArgument& tensor : argument.get_as_optional_tensors()) {
        if (tensor.tag() == schema::OptionalTensorArgument::Tag::AS_TENSOR) visit(tensor.get_as_tensor().get_name());
      }
      break;
    default:
      break;
  }
}

}  // namespace

Importer::Importer(const Pt2File& file)
    : file_(file), program_(file.program()), reader_(program_), aliasing_(builder_) {
  const schema::GraphModule& module = program_.get_graph_module();
  const auto count = [&](const std::string& name) { ++uses_[name]; };
  for (const schema::Node& node : module.get_graph().get_nodes()) {
    for (const schema::NamedArgument& argument : node.get_inputs()) for_each_tensor(argument.get_arg(), count);
  }
  for (const schema::OutputSpec& spec : module.get_signature().get_output_specs()) {
    switch (spec.tag()) {
      case schema::OutputSpec::Tag::USER_OUTPUT:
        for_each_tensor(spec.get_user_output().get_arg(), count);
        break;
      case schema::OutputSpec::Tag::LOSS_OUTPUT:
        count(spec.get_loss_output().get_arg().get_name());
        break;
      case schema::OutputSpec::Tag::BUFFER_MUTATION:
      case schema::OutputSpec::Tag::USER_INPUT_MUTATION:  // a batch of data is not used again
        break;
      default:
        throw Error(ErrorKind::kUnsupported, "the program has an output of the kind " +
                                                 std::string(schema::printEnum(spec.tag())) +
                                                 ": export the module's forward, with the loss as its result");
    }
  }
}

Graph Importer::run() {
  Scope scope{program_.get_graph_module().get_graph(), {}, true};
  bind_inputs(scope);
  for (const schema::OutputSpec& spec : program_.get_graph_module().get_signature().get_output_specs()) {
    if (spec.tag() != schema::OutputSpec::Tag::BUFFER_MUTATION) continue;
    const std::string& argument = buffers_.at(spec.get_buffer_mutation().get_buffer_name());
    mutated_.insert(aliasing_.state_of(scope.values.at(argument)));
  }
  import_nodes(scope);
  write_mutated_buffers(scope);
  const TensorId loss = find_loss(scope);
  Graph graph = builder_.finish(file_.path().stem().string(), inputs_, loss);
  graph.min_batch = reader_.batch_range().least;
  graph.max_batch = reader_.batch_range().most;
  return graph;
}

void Importer::bind_inputs(Scope& scope) {
  for (const schema::InputSpec& spec : program_.get_graph_module().get_signature().get_input_specs()) {
    switch (spec.tag()) {
      case schema::InputSpec::Tag::PARAMETER: {
        const schema::InputToParameterSpec& parameter = spec.get_parameter();
        const std::string& argument = parameter.get_arg().get_name();
        if (!uses_.contains(argument)) break;
        scope.values[argument] = bind_state(parameter.get_parameter_name(), argument, TensorRole::kParameter, scope);
        break;
      }
      case schema::InputSpec::Tag::BUFFER: {
        const schema::InputToBufferSpec& buffer = spec.get_buffer();
        const std::string& argument = buffer.get_arg().get_name();
        buffers_[buffer.get_buffer_name()] = argument;
        scope.values[argument] = bind_state(buffer.get_buffer_name(), argument, TensorRole::kBuffer, scope);
        break;
      }
      case schema::InputSpec::Tag::TENSOR_CONSTANT: {
        const schema::InputToTensorConstantSpec& constant = spec.get_tensor_constant();
        const std::string& argument = constant.get_arg().get_name();
        scope.values[argument] =
            bind_state(constant.get_tensor_constant_name(), argument, TensorRole::kConstant, scope);
        break;
      }
      case schema::InputSpec::Tag::USER_INPUT: {
        const schema::Argument& input = spec.get_user_input().get_arg();
        if (input.tag() != Tag::AS_TENSOR) break;  // a number that the program has taken for a constant
        const std::string& name = input.get_as_tensor().get_name();
        const TensorMeta meta = reader_.meta(scope.graph, name);
        inputs_.push_back(builder_.add_tensor(name, meta, TensorRole::kInput, false));
        scope.values[name] = aliasing_.fresh(inputs_.back(), meta);
        break;
      }
      case schema::InputSpec::Tag::CONSTANT_INPUT:
        break;
      default:
        throw Error(ErrorKind::kUnsupported, "the program has an input of the kind " +
                                                 std::string(schema::printEnum(spec.tag())) +
                                                 ": only tensors can be trained on");
    }
  }
}

Importer::Handle Importer::bind_state(const std::string& name, const std::string& argument, TensorRole role,
                                      const Scope& scope) {
  const TensorMeta meta = reader_.meta(scope.graph, argument);
  const auto entry = file_.tensors().find(name);
  TensorId id = kNone;
  for (const auto& [other, bound] : stored_) {
    const bool tied = entry != file_.tensors().end() && other.same_storage(entry->second);
    if (tied && builder_.tensor(bound).role == role) id = bound;
  }
  if (id == kNone) {
    const bool gradient = role == TensorRole::kParameter && is_floating(meta.dtype) &&
                          scope.graph.get_tensor_values().at(argument).get_requires_grad();
    id = builder_.add_tensor(name, meta, role, gradient);
    if (entry != file_.tensors().end()) stored_.emplace_back(entry->second, id);
  }
  if (role == TensorRole::kBuffer) return aliasing_.state(id);
  return aliasing_.read_only(id, (role == TensorRole::kParameter ? "the parameter " : "the constant ") + name);
}

void Importer::write_mutated_buffers(Scope& scope) {
  for (const schema::OutputSpec& spec : program_.get_graph_module().get_signature().get_output_specs()) {
    if (spec.tag() != schema::OutputSpec::Tag::BUFFER_MUTATION) continue;
    const std::string& value = spec.get_buffer_mutation().get_arg().get_name();
    const std::string& buffer = spec.get_buffer_mutation().get_buffer_name();
    const Handle& computed = scope.values.at(value);
    const Handle& state = scope.values.at(buffers_.at(buffer));
    if (aliasing_.state_of(computed) == aliasing_.state_of(state)) continue;  // a batch norm has written it by itself
    Call context;
    context.name = "write_" + buffers_.at(buffer);
    aliasing_.write(state, aliasing_.read(computed), context);
  }
}

TensorId Importer::find_loss(Scope& scope) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorKind::kInvalidInput, why + ": let forward return the loss, a scalar, first");
  };
  for (const schema::OutputSpec& spec : program_.get_graph_module().get_signature().get_output_specs()) {
    std::string name;
    if (spec.tag() == schema::OutputSpec::Tag::LOSS_OUTPUT) {
      name = spec.get_loss_output().get_arg().get_name();
    } else if (spec.tag() == schema::OutputSpec::Tag::USER_OUTPUT) {
      const schema::Argument& output = spec.get_user_output().get_arg();
      if (output.tag() == Tag::AS_TENSOR) name = output.get_as_tensor().get_name();
    } else {
      continue;
    }
    const auto value = scope.values.find(name);
    if (value == scope.values.end()) {
      refuse("the program's first output is not a tensor");
    }
    const TensorMeta& meta = value->second.meta();
    if (!meta.shape.empty() || !is_floating(meta.dtype)) {
      refuse("the program's first output, " + name + ", has " + std::to_string(meta.shape.size()) +
             " dimensions and dtype " + to_string(meta.dtype));
    }
    const TensorId loss = aliasing_.read(value->second);
    if (builder_.tensor(loss).producer == kNone || !builder_.tensor(loss).requires_gradient) {
      refuse("the loss, " + name + ", does not depend on any parameter");
    }
    return loss;
  }
  refuse("the program has no output");
  return kNone;
}

Graph import_pt2(const Pt2File& file) {
  try {
    return Importer(file).run();
  } catch (const Error& error) {
    throw Error(error.kind(), file.path().string() + ": " + error.what());
  }
}

}  // namespace motley
