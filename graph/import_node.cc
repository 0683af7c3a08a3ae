#include <algorithm>

#include "base/error.h"
#include "graph/importer.h"
#include "graph/op_traits.h"
#include "graph/simplify.h"
#include "graph/strides.h"

namespace motley {
namespace {

using Tag = schema::Argument::Tag;

// The names of a node's tensors, "" for None. `numbers` says whether it makes symbolic numbers instead.
std::vector<std::string> output_names(const schema::Node& node, bool& numbers) {
  std::vector<std::string> names;
  for (const schema::Argument& output : node.get_outputs()) {
    switch (output.tag()) {
      case Tag::AS_TENSOR:
        names.push_back(output.get_as_tensor().get_name());
        break;
      case Tag::AS_TENSORS:
        for (const schema::TensorArgument& tensor : output.get_as_tensors()) names.push_back(tensor.get_name());
        break;
      case Tag::AS_OPTIONAL_TENSOR: {
        const schema::OptionalTensorArgument& tensor = output.get_as_optional_tensor();
        const bool absent = tensor.tag() == schema::OptionalTensorArgument::Tag::AS_NONE;
        names.push_back(absent ? "" : tensor.get_as_tensor().get_name());
        break;
      }
      case Tag::AS_NONE:
        names.emplace_back();
        break;
      default:
        numbers = true;
    }
  }
  return names;
}

bool is_assertion(const std::string& target) {
  const std::string_view base = base_name(target);
  return base.starts_with("_assert") || base.starts_with("sym_constrain_range");
}

// The place of an argument among the call's inputs; -1 when it is absent.
std::int32_t input_place(const Call& call, std::string_view argument) {
  const ArgumentValue* value = find_argument(call.arguments, argument);
  const auto* reference = value == nullptr ? nullptr : std::get_if<InputRef>(value);
  return reference == nullptr ? -1 : reference->index;
}

bool is_training_norm(const Call& call) {
  static constexpr std::string_view kNames[] = {"batch_norm",
                                                "instance_norm",
                                                "native_batch_norm",
                                                "_native_batch_norm_legit",
                                                "_batch_norm_with_update",
                                                "_batch_norm_impl_index",
                                                "cudnn_batch_norm",
                                                "miopen_batch_norm"};
  const std::string_view base = base_name(call.target);
  if (std::find(std::begin(kNames), std::end(kNames), base) == std::end(kNames)) return false;
  const ArgumentValue* training =
      find_argument(call.arguments, base == "instance_norm" ? "use_input_stats" : "training");
  const bool trains = base == "_batch_norm_with_update" || (training != nullptr && *training == ArgumentValue(true));
  return trains && input_place(call, "running_mean") >= 0;
}

}  // namespace

void Importer::import_nodes(Scope& scope) {
  for (const schema::Node& node : scope.graph.get_nodes()) {
    try {
      import_node(node, scope);
    } catch (const Error& error) {
      // An error from inside a higher-order op has its node already.
      if (std::string_view(error.what()).starts_with("node ")) throw;
      const std::string source = source_of(node);
      throw Error(error.kind(), "node " + node.get_name().value_or("?") + " (" + target_name(node.get_target()) +
                                    (source.empty() ? "" : ", " + source) + "): " + error.what());
    }
  }
}

void Importer::import_node(const schema::Node& node, Scope& scope) {
  const std::string target = target_name(node.get_target());
  if (target.starts_with("higher_order::")) return inline_graph(node, scope);
  bool numbers = false;
  std::vector<std::string> names = output_names(node, numbers);
  // Arithmetic on sizes: its results are in the sizes of the tensors that use them.
  if (names.empty() && (numbers || is_assertion(target))) return;
  if (names.empty() || numbers || target.find("::") == std::string::npos) {
    throw Error(ErrorKind::kUnsupported, "an op whose results are not tensors");
  }
  Step step{node, scope, {}, {}, std::move(names), {}};
  step.call.name = node.get_name().value_or(step.outputs[0]);
  step.call.target = target;
  step.call.source = source_of(node);
  step.call.module = module_of(node);
  step.call.gradients = scope.gradients;
  for (const std::string& name : step.outputs) {
    step.metas.push_back(name.empty() ? std::nullopt : std::optional(reader_.meta(scope.graph, name)));
  }
  const auto read = [&](const std::string& name) {
    const auto value = scope.values.find(name);
    if (value == scope.values.end()) throw Error(ErrorKind::kUnsupported, "its input " + name + " is not computed");
    step.inputs.push_back(value->second);
    return aliasing_.read(value->second);
  };
  for (const schema::NamedArgument& argument : node.get_inputs()) {
    step.call.arguments.push_back(
        {argument.get_name(), reader_.argument(scope.graph, argument.get_arg(), step.call, read)});
  }
  import_call(step);
}

void Importer::bind(Step& step, std::size_t output, Handle handle) {
  step.scope.values[step.outputs[output]] = std::move(handle);
}

void Importer::import_call(Step& step) {
  Call& call = step.call;
  if (is_in_place(call.target)) return import_in_place(step);
  if (import_functional_norm(step)) return;
  if (is_training_norm(call)) return import_norm(step);
  if (call.target == "aten::copy.default") return import_copy(step);

  const bool single = step.outputs.size() == 1 && step.metas[0];
  normalize(call, single ? step.metas[0] : std::nullopt);
  if (single) {
    const Shortcut way = shortcut(call, *step.metas[0], builder_);
    if (way == Shortcut::kSame) return bind(step, 0, step.inputs[0]);
    if (way == Shortcut::kEqualCopy && !aliasing_.is_state(step.inputs[0])) {
      return bind(step, 0, aliasing_.fresh(call.inputs[0], *step.metas[0]));
    }
  }
  const bool all = std::all_of(step.metas.begin(), step.metas.end(), [](const auto& meta) { return meta.has_value(); });
  const auto reshapes = [&] {
    const TensorMeta& from = step.inputs[0].meta();
    return is_reshape(call.target) && from.strides_known && can_view(from.shape, from.strides, step.metas[0]->shape);
  };
  if (!call.inputs.empty() && all && (is_view(call.target) || (single && reshapes()))) {
    std::vector<TensorMeta> metas;
    for (const auto& meta : step.metas) metas.push_back(*meta);
    const std::vector<Handle> views = aliasing_.view(step.inputs[0], call, metas, step.outputs);
    for (std::size_t i = 0; i < views.size(); ++i) bind(step, i, views[i]);
    return;
  }
  const std::vector<TensorId> made = builder_.add(call, step.metas, step.outputs);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i] != kNone) bind(step, i, aliasing_.fresh(made[i], *step.metas[i]));
  }
}

void Importer::import_in_place(Step& step) {
  if (step.inputs.empty() || step.outputs.size() != 1 || !step.metas[0]) {
    throw Error(ErrorKind::kUnsupported, "an in-place op on several tensors: write one op per tensor");
  }
  const Handle self = step.inputs[0];
  const std::string twin = functional_twin(step.call.target);
  if (is_view(twin)) {
    // squeeze_, t_, detach_: the same memory, seen otherwise from now on under both names.
    step.call.target = twin;
    import_call(step);
    for (const schema::NamedArgument& argument : step.node.get_inputs()) {
      if (argument.get_arg().tag() != Tag::AS_TENSOR) continue;
      step.scope.values[argument.get_arg().get_as_tensor().get_name()] = step.scope.values.at(step.outputs[0]);
      break;
    }
    return;
  }
  bind(step, 0, self);
  const TensorId state = aliasing_.state_of(self);
  if (state != kNone) {
    step.call.writes = {state};
    builder_.add(step.call, {std::nullopt}, step.outputs);
    return aliasing_.state_written(self);
  }
  Call call = step.call;
  call.target = twin;
  const std::string_view base = base_name(twin);
  if (base == "copy" || (base == "fill" && overload_name(twin) == "Tensor")) {
    return aliasing_.write(self, copied(call, self.meta(), step.inputs.at(1)), call);
  }
  if (base == "zero") {
    call.target = "aten::zeros_like.default";
  } else if (base == "fill") {
    call.target = "aten::full_like.default";
    call.arguments.at(1).name = "fill_value";
  }
  if (shortcut(call, self.meta(), builder_) != Shortcut::kNone) return;
  // A wider operand widens the functional result; in place, it is cast back.
  TensorMeta result = self.meta();
  for (TensorId input : call.inputs) {
    const DType other = builder_.meta(input).dtype;
    if (is_floating(other) && is_floating(result.dtype) && size_of(other) > size_of(result.dtype)) result.dtype = other;
  }
  TensorId value = builder_.add(call, result);
  if (result.dtype != self.meta().dtype) {
    Call cast = call;
    cast.target = "aten::to.dtype";
    cast.arguments.clear();
    cast.inputs.clear();
    cast.add("self", value);
    cast.arguments.push_back({"dtype", self.meta().dtype});
    value = builder_.add(cast, self.meta());
  }
  aliasing_.write(self, value, call);
}

TensorId Importer::copied(const Call& context, const TensorMeta& target, const Handle& source) {
  TensorId value = aliasing_.read(source);
  const auto convert = [&](const std::string& op, const TensorMeta& meta, std::vector<Argument> arguments) {
    Call call = context;
    call.target = op;
    call.arguments.clear();
    call.inputs.clear();
    call.add("self", value);
    for (Argument& argument : arguments) call.arguments.push_back(std::move(argument));
    value = builder_.add(call, meta);
  };
  if (builder_.meta(value).dtype != target.dtype) {
    TensorMeta cast = builder_.meta(value);
    cast.dtype = target.dtype;
    convert("aten::to.dtype", cast, {{"dtype", target.dtype}});
  } else if (aliasing_.is_state(source)) {
    convert("aten::clone.default", builder_.meta(value), {});
  }
  if (builder_.meta(value).shape != target.shape) {
    const TensorMeta& narrow = builder_.meta(value);
    TensorMeta wide{target.dtype, target.shape, Shape(target.shape.size(), BatchExpr(0))};
    const std::size_t added = target.shape.size() - narrow.shape.size();
    for (std::size_t i = 0; i < narrow.shape.size(); ++i) {
      if (narrow.shape[i] == target.shape[added + i]) wide.strides[added + i] = narrow.strides[i];
    }
    convert("aten::expand.default", wide, {{"size", std::vector<BatchExpr>(target.shape.begin(), target.shape.end())}});
  }
  return value;
}

void Importer::import_copy(Step& step) {
  const TensorMeta& meta = *step.metas.at(0);
  bind(step, 0, aliasing_.fresh(copied(step.call, meta, step.inputs.at(1)), meta));
}

void Importer::import_norm(Step& step) {
  normalize(step.call, std::nullopt);
  for (const char* name : {"running_mean", "running_var"}) {
    const std::int32_t place = input_place(step.call, name);
    if (place < 0) continue;
    const Handle& statistics = step.inputs[static_cast<std::size_t>(place)];
    const TensorId buffer = aliasing_.state_of(statistics);
    if (buffer == kNone) {
      throw Error(ErrorKind::kUnsupported,
                  std::string(name) + " is not a buffer of the model: register it with register_buffer");
    }
    step.call.writes.push_back(buffer);
    aliasing_.state_written(statistics);
  }
  const std::vector<TensorId> made = builder_.add(step.call, step.metas, step.outputs);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i] != kNone) bind(step, i, aliasing_.fresh(made[i], *step.metas[i]));
  }
}

// A functional program returns the new running statistics; the op that writes the buffers itself does the same in one
// pass. Right when nobody reads the old statistics later, and the buffer ends up with new ones.
bool Importer::import_functional_norm(Step& step) {
  Call& call = step.call;
  if (base_name(call.target) != "_native_batch_norm_legit_functional" || step.outputs.size() != 5) return false;
  if (uses_.contains(step.outputs[1]) || uses_.contains(step.outputs[2])) return false;
  std::vector<Handle> statistics;
  for (const schema::NamedArgument& argument : step.node.get_inputs()) {
    if (argument.get_name() != "running_mean" && argument.get_name() != "running_var") continue;
    if (argument.get_arg().tag() != Tag::AS_TENSOR) return false;
    const std::string& name = argument.get_arg().get_as_tensor().get_name();
    statistics.push_back(step.scope.values.at(name));
    if (uses_[name] != 1 || !mutated_.contains(aliasing_.state_of(statistics.back()))) return false;
  }
  call.target = "aten::batch_norm.default";
  call.arguments.push_back({"cudnn_enabled", true});
  if (statistics.size() != 2 || !is_training_norm(call)) return false;
  for (std::size_t i = 0; i < 2; ++i) bind(step, 3 + i, statistics[i]);
  step.outputs.resize(1);
  step.metas.resize(1);
  import_norm(step);
  return true;
}

void Importer::inline_graph(const schema::Node& node, Scope& scope) {
  const std::string target = target_name(node.get_target());
  const std::vector<schema::NamedArgument>& arguments = node.get_inputs();
  const bool sets_gradients = target == "higher_order::wrap_with_set_grad_enabled";
  const std::size_t graph_at = sets_gradients ? 1 : 4;
  if ((!sets_gradients && target != "higher_order::wrap_with_autocast") || arguments.size() <= graph_at ||
      arguments[graph_at].get_arg().tag() != Tag::AS_GRAPH) {
    throw Error(ErrorKind::kUnsupported, "control flow cannot be planned: export the model without it");
  }
  const schema::Argument& enabled = arguments[sets_gradients ? 0 : 2].get_arg();
  if (!sets_gradients && enabled.get_as_bool()) {
    throw Error(ErrorKind::kUnsupported, "torch.autocast inside forward: cast the model's tensors explicitly");
  }
  Scope inner{*arguments[graph_at].get_arg().get_as_graph().get_graph(), {}, scope.gradients};
  if (sets_gradients) inner.gradients = enabled.get_as_bool();
  const std::vector<schema::Argument>& formal = inner.graph.get_inputs();
  for (std::size_t i = 0; i < formal.size() && graph_at + 1 + i < arguments.size(); ++i) {
    const schema::Argument& actual = arguments[graph_at + 1 + i].get_arg();
    if (actual.tag() != Tag::AS_TENSOR) continue;  // numbers are described where they are used
    inner.values[formal[i].get_as_tensor().get_name()] = scope.values.at(actual.get_as_tensor().get_name());
  }
  import_nodes(inner);
  bool numbers = false;
  const std::vector<std::string> names = output_names(node, numbers);
  const std::vector<schema::Argument>& results = inner.graph.get_outputs();
  for (std::size_t i = 0; i < names.size() && i < results.size(); ++i) {
    if (results[i].tag() != Tag::AS_TENSOR) continue;
    scope.values[names[i]] = inner.values.at(results[i].get_as_tensor().get_name());
  }
}

}  // namespace motley
