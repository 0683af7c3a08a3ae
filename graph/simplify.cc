#include "graph/simplify.h"

#include <limits>

#include "graph/op_traits.h"
#include "graph/strides.h"

namespace motley {
namespace {

bool is_number(const Call& call, std::string_view argument, std::int64_t number) {
  const ArgumentValue* value = find_argument(call.arguments, argument);
  if (value == nullptr) return false;
  if (const auto* integer = std::get_if<BatchExpr>(value)) return *integer == BatchExpr(number);
  const auto* real = std::get_if<double>(value);
  return real != nullptr && *real == static_cast<double>(number);
}

bool is_true(const Call& call, std::string_view argument) {
  const ArgumentValue* value = find_argument(call.arguments, argument);
  return value != nullptr && std::holds_alternative<bool>(*value) && std::get<bool>(*value);
}

bool is_false(const Call& call, std::string_view argument) {
  const ArgumentValue* value = find_argument(call.arguments, argument);
  return value != nullptr && std::holds_alternative<bool>(*value) && !std::get<bool>(*value);
}

bool has(const Call& call, std::string_view argument) {
  const ArgumentValue* value = find_argument(call.arguments, argument);
  return value != nullptr && !std::holds_alternative<std::monostate>(*value);
}

// No memory format asked for, or "as it is".
bool keeps_format(const Call& call) {
  const ArgumentValue* value = find_argument(call.arguments, "memory_format");
  const auto* format = value == nullptr ? nullptr : std::get_if<MemoryFormat>(value);
  return format == nullptr || *format == MemoryFormat::kPreserve;
}

bool wants_dense(const Call& call) {
  const ArgumentValue* value = find_argument(call.arguments, "memory_format");
  const auto* format = value == nullptr ? nullptr : std::get_if<MemoryFormat>(value);
  return format == nullptr || *format == MemoryFormat::kContiguous;
}

bool is_whole_slice(const Call& call) {
  return (!has(call, "start") || is_number(call, "start", 0)) && (!has(call, "step") || is_number(call, "step", 1));
}

bool multiplies_by_one(std::string_view base, const Call& call) {
  return (base == "mul" || base == "div") && is_number(call, "other", 1) && !has(call, "rounding_mode");
}

bool adds_zero(std::string_view base, const Call& call, DType dtype) {
  return (base == "add" || base == "sub") && !is_floating(dtype) && is_number(call, "other", 0);
}

void only_shape(Call& call, const std::string& target, const std::string& argument, const TensorMeta& output) {
  call.target = target;
  call.inputs.resize(1);
  call.arguments = {{"self", InputRef{0}},
                    {argument, std::vector<BatchExpr>(output.shape.begin(), output.shape.end())}};
}

}  // namespace

Shortcut shortcut(const Call& call, const TensorMeta& output, const ForwardBuilder& builder) {
  if (call.inputs.empty() || !call.target.starts_with("aten::")) return Shortcut::kNone;
  const TensorId input = call.inputs[0];
  const TensorMeta& meta = builder.meta(input);
  const std::string_view base = base_name(call.target);
  if (meta.dtype != output.dtype || meta.shape != output.shape) return Shortcut::kNone;
  const bool has_gradient = builder.tensor(input).requires_gradient;
  const bool sure = builder.strides_are_sure(input);
  const bool same_strides =
      meta.strides == output.strides || (is_dense(meta.shape, meta.strides) && is_dense(meta.shape, output.strides));

  if (base == "to" && !is_true(call, "copy") && (keeps_format(call) || (sure && same_strides))) return Shortcut::kSame;
  if (base == "contiguous" && wants_dense(call) && sure && is_dense(meta.shape, meta.strides)) return Shortcut::kSame;
  // What torch.no_grad makes needs no gradient, even where it equals what does.
  if (!call.gradients && has_gradient) return Shortcut::kNone;
  if (base == "alias" || base == "lift_fresh" || (base == "detach" && !has_gradient)) return Shortcut::kSame;
  if (base == "slice" && is_whole_slice(call)) return Shortcut::kSame;
  if (base == "expand" || ((base == "view" || base == "reshape" || base == "flatten") && same_strides && sure)) {
    return overload_name(call.target) == "dtype" ? Shortcut::kNone : Shortcut::kSame;
  }
  if (base == "dropout" || base == "alpha_dropout" || base == "feature_dropout" || base == "feature_alpha_dropout") {
    if (is_number(call, "p", 0) || is_false(call, "train")) return Shortcut::kSame;
  }
  const bool copies = base == "clone" || base == "lift_fresh_copy" || base == "_to_copy" || base == "to";
  if (copies || multiplies_by_one(base, call) || adds_zero(base, call, meta.dtype)) {
    return sure && same_strides ? Shortcut::kEqualCopy : Shortcut::kNone;
  }
  return Shortcut::kNone;
}

void normalize(Call& call, const std::optional<TensorMeta>& output) {
  if (call.target == "transformers::grouped_mm_fallback.default" && call.arguments.size() == 3) {
    call.target = "aten::_grouped_mm.default";
    call.arguments[0].name = "self";
    call.arguments[1].name = "mat2";
    call.arguments[2].name = "offs";
    return;
  }
  if (!call.target.starts_with("aten::")) return;
  const std::string_view base = base_name(call.target);
  if (base == "expand_as" && output) return only_shape(call, "aten::expand.default", "size", *output);
  if (base == "broadcast_to" && output) return only_shape(call, "aten::expand.default", "size", *output);
  if (base == "view_as" && output) return only_shape(call, "aten::view.default", "size", *output);
  if (base == "reshape_as" && output) return only_shape(call, "aten::reshape.default", "shape", *output);
  if (base == "type_as" && output) {
    call.target = "aten::to.dtype";
    call.inputs.resize(1);
    call.arguments = {{"self", InputRef{0}}, {"dtype", output->dtype}};
    return;
  }
  for (Argument& argument : call.arguments) {
    if (argument.name == "cudnn_enabled" || argument.name == "cudnn_enable") argument.value = true;
  }
}

}  // namespace motley
