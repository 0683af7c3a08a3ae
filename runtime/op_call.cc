#include "runtime/op_call.h"

#include <ATen/ScalarOps.h>
#include <c10/core/MemoryFormat.h>
#include <torch/headeronly/version.h>

#include <optional>

#include "base/error.h"
#include "runtime/device_tensor.h"

namespace motley {
namespace {

struct BadArgument {};  // the value does not fit the schema's type

const c10::TypePtr& without_optional(const c10::TypePtr& type) {
  const auto* optional = type->castRaw<c10::OptionalType>();
  return optional == nullptr ? type : optional->getElementType();
}

c10::TypeKind element_kind(const c10::TypePtr& type) {
  const auto* list = type->castRaw<c10::ListType>();
  return list == nullptr ? c10::TypeKind::AnyType : without_optional(list->getElementType())->kind();
}

c10::MemoryFormat memory_format(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return c10::MemoryFormat::Contiguous;
    case MemoryFormat::kPreserve:
      return c10::MemoryFormat::Preserve;
    case MemoryFormat::kChannelsLast:
      return c10::MemoryFormat::ChannelsLast;
    case MemoryFormat::kChannelsLast3d:
      return c10::MemoryFormat::ChannelsLast3d;
  }
  throw BadArgument();
}

// A number, truth value or code where the schema wants type `kind`.
c10::IValue scalar(c10::TypeKind kind, const ArgumentValue& value, std::int64_t batch, c10::Device device) {
  const bool integral = kind == c10::TypeKind::IntType || kind == c10::TypeKind::NumberType;
  const bool real = kind == c10::TypeKind::FloatType || kind == c10::TypeKind::NumberType;
  if (const auto* size = std::get_if<BatchExpr>(&value)) {
    if (integral) return size->at(batch);
    if (real) return static_cast<double>(size->at(batch));
  } else if (const auto* number = std::get_if<double>(&value)) {
    if (real) return *number;
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    if (kind == c10::TypeKind::BoolType || kind == c10::TypeKind::NumberType) return *flag;
    if (kind == c10::TypeKind::IntType) return static_cast<std::int64_t>(*flag);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    if (kind == c10::TypeKind::StringType) return *text;
  } else if (const auto* dtype = std::get_if<DType>(&value)) {
    if (kind == c10::TypeKind::IntType) return static_cast<std::int64_t>(scalar_type(*dtype));
  } else if (const auto* format = std::get_if<MemoryFormat>(&value)) {
    if (kind == c10::TypeKind::IntType) return static_cast<std::int64_t>(memory_format(*format));
  } else if (std::holds_alternative<LayoutArgument>(value)) {
    if (kind == c10::TypeKind::IntType) return static_cast<std::int64_t>(c10::Layout::Strided);
  } else if (std::holds_alternative<DeviceArgument>(value)) {
    if (kind == c10::TypeKind::DeviceObjType) return device;
  }
  throw BadArgument();
}

template <class Number>
c10::IValue list_of(const std::vector<c10::IValue>& items) {
  c10::List<Number> list;
  list.reserve(items.size());
  for (const c10::IValue& item : items) list.push_back(item.to<Number>());
  return list;
}

c10::IValue list_of(c10::TypeKind element, const std::vector<c10::IValue>& items) {
  switch (element) {
    case c10::TypeKind::IntType:
      return list_of<std::int64_t>(items);
    case c10::TypeKind::FloatType:
      return list_of<double>(items);
    case c10::TypeKind::BoolType:
      return list_of<bool>(items);
    case c10::TypeKind::NumberType:
      return list_of<c10::Scalar>(items);
    default:
      throw BadArgument();
  }
}

// A number where the schema wants a tensor: a tensor without dimensions that does not decide the result's type.
c10::IValue number_as_tensor(const ArgumentValue& value, std::int64_t batch, c10::Device device) {
  at::Tensor tensor = c10::scalar_to_tensor(scalar(c10::TypeKind::NumberType, value, batch, device).toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// The elements of whichever list `value` is; a single value stands for a list of one ("int[2] stride=1").
std::vector<ArgumentValue> items_of(const ArgumentValue& value) {
  return std::visit(
      [&](const auto& held) -> std::vector<ArgumentValue> {
        if constexpr (requires { held.begin(); } && !std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
          std::vector<ArgumentValue> items;
          for (auto&& item : held)
            items.emplace_back(std::decay_t<typename std::decay_t<decltype(held)>::value_type>(item));
          return items;
        } else {
          return {value};
        }
      },
      value);
}

bool mentions_batch(const ArgumentValue& value) {
  if (const auto* size = std::get_if<BatchExpr>(&value)) return size->depends_on_batch();
  if (const auto* sizes = std::get_if<std::vector<BatchExpr>>(&value)) {
    for (const BatchExpr& size : *sizes) {
      if (size.depends_on_batch()) return true;
    }
  }
  return false;
}

const Argument* argument_named(const Op& op, const std::string& name) {
  for (const Argument& argument : op.arguments) {
    if (argument.name == name) return &argument;
  }
  return nullptr;
}

void append_tensors(c10::IValue&& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  } else {
    tensors.emplace_back();  // a number among the results keeps its place
  }
}

}  // namespace

std::string describe(const Op& op) {
  return "op '" + op.name + "'" + (op.source.empty() ? "" : " (" + op.source + ")");
}

c10::OperatorHandle find_operator(const Op& op) {
  const std::size_t dot = op.target.find('.');
  std::string overload = dot == std::string::npos ? "" : op.target.substr(dot + 1);
  if (overload == "default") overload.clear();
  const auto handle = c10::Dispatcher::singleton().findSchema({op.target.substr(0, dot), overload});
  if (!handle) {
    throw Error(ErrorKind::kUnsupported, describe(op) + " calls " + op.target +
                                             ", which LibTorch " TORCH_VERSION
                                             " does not have; express it with PyTorch's own operators");
  }
  return *handle;
}

OpCall::OpCall(const Op& op, const c10::OperatorHandle& handle, std::int64_t batch, c10::Device device)
    : handle_(handle) {
  const c10::FunctionSchema& schema = handle.schema();
  const auto refuse = [&](const std::string& argument, const std::string& what) {
    throw Error(ErrorKind::kUnsupported, describe(op) + ": argument '" + argument + "' of " + op.target + " " + what +
                                             "; export the model with the PyTorch release that motley was built for");
  };
  for (const Argument& argument : op.arguments) {
    if (!schema.argumentIndexWithName(argument.name)) refuse(argument.name, "is not in its schema");
    depends_on_batch_ = depends_on_batch_ || mentions_batch(argument.value);
  }
  for (const c10::Argument& formal : schema.arguments()) {
    const Argument* argument = argument_named(op, formal.name());
    const c10::TypePtr& type = without_optional(formal.type());
    if (argument == nullptr) {
      if (!formal.default_value() && formal.type()->kind() != c10::TypeKind::OptionalType) {
        refuse(formal.name(), "is missing");
      }
      stack_.push_back(formal.default_value().value_or(c10::IValue()));
    } else if (const auto* tensor = std::get_if<InputRef>(&argument->value)) {
      if (type->kind() != c10::TypeKind::TensorType) refuse(formal.name(), "is a tensor, but should be " + type->str());
      if (tensor->index != kNone) tensors_.push_back({stack_.size(), tensor->index});
      stack_.emplace_back();
    } else if (const auto* list = std::get_if<std::vector<InputRef>>(&argument->value)) {
      if (element_kind(type) != c10::TypeKind::TensorType) refuse(formal.name(), "should be " + type->str());
      const bool optional = type->castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::OptionalType;
      ListPlace place{stack_.size(), {}, optional};
      for (const InputRef& ref : *list) place.inputs.push_back(ref.index);
      lists_.push_back(std::move(place));
      stack_.emplace_back();
    } else if (std::holds_alternative<std::monostate>(argument->value)) {
      const bool optional = formal.type()->kind() == c10::TypeKind::OptionalType;
      if (!optional) refuse(formal.name(), "is None, but should be " + type->str());
      // Factories make their tensor on the default device, unless told.
      const bool factory = type->kind() == c10::TypeKind::DeviceObjType && op.inputs.empty();
      stack_.push_back(factory ? c10::IValue(device) : c10::IValue());
    } else {
      try {
        stack_.push_back(constant(type, argument->value, batch, device));
      } catch (const BadArgument&) {
        refuse(formal.name(), "should be " + type->str());
      }
    }
  }
}

c10::IValue OpCall::constant(const c10::TypePtr& type, const ArgumentValue& value, std::int64_t batch,
                             c10::Device device) const {
  if (type->kind() == c10::TypeKind::TensorType) return number_as_tensor(value, batch, device);
  const auto* list = type->castRaw<c10::ListType>();
  if (list == nullptr) return scalar(type->kind(), value, batch, device);
  const c10::TypeKind element = list->getElementType()->kind();
  std::vector<c10::IValue> items;
  for (const ArgumentValue& item : items_of(value)) items.push_back(scalar(element, item, batch, device));
  return list_of(element, items);
}

std::vector<at::Tensor> OpCall::operator()(std::span<const at::Tensor> inputs) const {
  torch::jit::Stack stack = stack_;
  for (const TensorPlace& place : tensors_) stack[place.argument] = inputs[place.input];
  for (const ListPlace& place : lists_) {
    if (place.optional) {
      c10::List<std::optional<at::Tensor>> list;
      for (std::int32_t input : place.inputs) {
        list.push_back(input == kNone ? std::nullopt : std::optional<at::Tensor>(inputs[input]));
      }
      stack[place.argument] = std::move(list);
    } else {
      c10::List<at::Tensor> list;
      for (std::int32_t input : place.inputs) list.push_back(inputs[input]);
      stack[place.argument] = std::move(list);
    }
  }
  handle_.callBoxed(&stack);
  std::vector<at::Tensor> tensors;
  tensors.reserve(stack.size());
  for (c10::IValue& value : stack) append_tensors(std::move(value), tensors);
  return tensors;
}

}  // namespace motley
