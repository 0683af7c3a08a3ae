#include "graph/program_reader.h"

#include <map>
#include <regex>

#include "base/error.h"
#include "graph/strides.h"

namespace motley {
namespace {

constexpr const char* kHowToExport =
    "give the first dimension of every input, and nothing else, the same torch.export.Dim in dynamic_shapes, with an "
    "example of at least 2 samples (motley.export_model does)";

[[noreturn]] void unsupported(const std::string& what) { throw Error(ErrorKind::kUnsupported, what); }

// Every symbol in the sizes of the user's inputs, with one place where it stands.
std::map<std::string, std::string> symbols_of(const schema::ExportedProgram& program) {
  static const std::regex symbol(R"(Symbol\('(\w+)')");
  std::map<std::string, std::string> found;
  const schema::Graph& graph = program.get_graph_module().get_graph();
  for (const schema::InputSpec& spec : program.get_graph_module().get_signature().get_input_specs()) {
    if (spec.tag() != schema::InputSpec::Tag::USER_INPUT) continue;
    const schema::Argument& argument = spec.get_user_input().get_arg();
    if (argument.tag() != schema::Argument::Tag::AS_TENSOR) continue;
    const std::string& name = argument.get_as_tensor().get_name();
    const auto& sizes = graph.get_tensor_values().at(name).get_sizes();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].tag() != schema::SymInt::Tag::AS_EXPR) continue;
      const std::string& text = sizes[i].get_as_expr().get_expr_str();
      for (std::sregex_iterator match(text.begin(), text.end(), symbol), end; match != end; ++match) {
        found.emplace((*match)[1], "dimension " + std::to_string(i) + " of " + name);
      }
    }
  }
  return found;
}

MemoryFormat memory_format(schema::MemoryFormat format) {
  switch (format) {
    case schema::MemoryFormat::ContiguousFormat:
      return MemoryFormat::kContiguous;
    case schema::MemoryFormat::PreserveFormat:
      return MemoryFormat::kPreserve;
    case schema::MemoryFormat::ChannelsLast:
      return MemoryFormat::kChannelsLast;
    case schema::MemoryFormat::ChannelsLast3d:
      return MemoryFormat::kChannelsLast3d;
    default:
      unsupported("a memory format that motley does not know");
  }
}

}  // namespace

ProgramReader::ProgramReader(const schema::ExportedProgram& program) {
  const std::map<std::string, std::string> symbols = symbols_of(program);
  if (symbols.empty()) {
    throw Error(ErrorKind::kInvalidInput,
                std::string("no size of the model's inputs is symbolic, so the batch size is fixed: ") + kHowToExport);
  }
  if (symbols.size() > 1) {
    std::string list;
    for (const auto& [symbol, place] : symbols) {
      if (!list.empty()) list += ", ";
      list.append(symbol).append(" (").append(place).append(")");
    }
    throw Error(ErrorKind::kInvalidInput, "the model's inputs have " + std::to_string(symbols.size()) +
                                              " symbolic sizes, " + list +
                                              ", and only the batch may be: " + kHowToExport);
  }
  symbol_ = symbols.begin()->first;
  const auto range = program.get_range_constraints().find(symbol_);
  if (range == program.get_range_constraints().end()) return;
  range_.least = std::max<std::int64_t>(1, range->second.get_min_val().value_or(1));
  const std::int64_t most = range->second.get_max_val().value_or(0);
  range_.most = most >= std::numeric_limits<std::int64_t>::max() - 1 ? 0 : most;
}

BatchExpr ProgramReader::size(const schema::SymInt& size) const {
  if (size.tag() == schema::SymInt::Tag::AS_INT) return size.get_as_int();
  return BatchExpr::parse(size.get_as_expr().get_expr_str(), symbol_, range_);
}

BatchExpr ProgramReader::size(const schema::Graph& graph, const schema::SymIntArgument& argument) const {
  if (argument.tag() == schema::SymIntArgument::Tag::AS_INT) return argument.get_as_int();
  const auto value = graph.get_sym_int_values().find(argument.get_as_name());
  if (value == graph.get_sym_int_values().end())
    unsupported("the size " + argument.get_as_name() + " is not described");
  return size(value->second);
}

TensorMeta ProgramReader::meta(const schema::Graph& graph, const std::string& tensor) const {
  const auto value = graph.get_tensor_values().find(tensor);
  if (value == graph.get_tensor_values().end()) unsupported("the tensor " + tensor + " is not described");
  const schema::TensorMeta& described = value->second;
  if (described.get_layout() != schema::Layout::Strided) unsupported("the tensor " + tensor + " is sparse");
  TensorMeta meta;
  meta.dtype = dtype_from_code(static_cast<std::int64_t>(described.get_dtype()));
  for (const schema::SymInt& number : described.get_sizes()) meta.shape.push_back(size(number));
  try {
    for (const schema::SymInt& number : described.get_strides()) meta.strides.push_back(size(number));
  } catch (const Error&) {
    // PyTorch writes some strides with minima and maxima that depend on the batch; nothing depends on them but what can
    // be left out.
    meta.strides = dense_strides(meta.shape);
    meta.strides_known = false;
  }
  return meta;
}

ArgumentValue ProgramReader::argument(const schema::Graph& graph, const schema::Argument& argument, Call& call,
                                      const std::function<TensorId(const std::string&)>& read) const {
  using Tag = schema::Argument::Tag;
  const auto reference = [&](const std::string& name) {
    call.inputs.push_back(read(name));
    return InputRef{static_cast<std::int32_t>(call.inputs.size()) - 1};
  };
  switch (argument.tag()) {
    case Tag::AS_NONE:
      return std::monostate();
    case Tag::AS_TENSOR:
      return reference(argument.get_as_tensor().get_name());
    case Tag::AS_TENSORS: {
      std::vector<InputRef> list;
      for (const schema::TensorArgument& tensor : argument.get_as_tensors())
        list.push_back(reference(tensor.get_name()));
      return list;
    }
    case Tag::AS_OPTIONAL_TENSOR: {
      const schema::OptionalTensorArgument& tensor = argument.get_as_optional_tensor();
      if (tensor.tag() == schema::OptionalTensorArgument::Tag::AS_NONE) return std::monostate();
      return reference(tensor.get_as_tensor().get_name());
    }
    case Tag::AS_OPTIONAL_TENSORS: {
      std::vector<InputRef> list;
      for (const schema::OptionalTensorArgument& tensor : argument.get_as_optional_tensors()) {
        const bool absent = tensor.tag() == schema::OptionalTensorArgument::Tag::AS_NONE;
        list.push_back(absent ? InputRef() : reference(tensor.get_as_tensor().get_name()));
      }
      return list;
    }
    case Tag::AS_INT:
      return BatchExpr(argument.get_as_int());
    case Tag::AS_INTS:
      return std::vector<BatchExpr>(argument.get_as_ints().begin(), argument.get_as_ints().end());
    case Tag::AS_SYM_INT:
      return size(graph, argument.get_as_sym_int());
    case Tag::AS_SYM_INTS: {
      std::vector<BatchExpr> list;
      for (const schema::SymIntArgument& number : argument.get_as_sym_ints()) list.push_back(size(graph, number));
      return list;
    }
    case Tag::AS_FLOAT:
      return argument.get_as_float().get();
    case Tag::AS_FLOATS: {
      std::vector<double> list;
      for (const schema::F64& number : argument.get_as_floats()) list.push_back(number.get());
      return list;
    }
    case Tag::AS_SYM_FLOAT:
      if (argument.get_as_sym_float().tag() == schema::SymFloatArgument::Tag::AS_FLOAT) {
        return argument.get_as_sym_float().get_as_float().get();
      }
      unsupported("an argument is the number " + argument.get_as_sym_float().get_as_name() +
                  ", computed from the batch size other than as a polynomial: compute it with tensors");
    case Tag::AS_BOOL:
      return argument.get_as_bool();
    case Tag::AS_BOOLS:
      return argument.get_as_bools();
    case Tag::AS_SYM_BOOL:
      if (argument.get_as_sym_bool().tag() == schema::SymBoolArgument::Tag::AS_BOOL) {
        return argument.get_as_sym_bool().get_as_bool();
      }
      unsupported("an argument is the condition " + argument.get_as_sym_bool().get_as_name() + " on the batch size");
    case Tag::AS_STRING:
      return argument.get_as_string();
    case Tag::AS_SCALAR_TYPE:
      return dtype_from_code(static_cast<std::int64_t>(argument.get_as_scalar_type()));
    case Tag::AS_MEMORY_FORMAT:
      return memory_format(argument.get_as_memory_format());
    case Tag::AS_DEVICE:
      return DeviceArgument();
    case Tag::AS_LAYOUT:
      if (argument.get_as_layout() == schema::Layout::Strided) return LayoutArgument();
      unsupported("an argument asks for a sparse layout");
    default:
      unsupported("an argument of the kind " + std::string(schema::printEnum(argument.tag())));
  }
}

std::string target_name(const std::string& exported) {
  static const std::string prefix = "torch.ops.";
  if (!exported.starts_with(prefix)) return exported;
  std::string name = exported.substr(prefix.size());
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.replace(dot, 1, "::");
}

std::string source_of(const schema::Node& node) {
  // Frames are `  File "PATH", line N, in FUNCTION`, outermost first, each followed by its line of code.
  static constexpr std::string_view kFile = "File \"";
  static constexpr std::string_view kLine = "\", line ";
  static constexpr std::string_view kIn = ", in ";
  const auto trace = node.get_metadata().find("stack_trace");
  if (trace == node.get_metadata().end()) return {};
  const std::string_view text = trace->second;
  std::string innermost;
  bool found_user = false;
  for (std::size_t at = text.find(kFile); at != std::string_view::npos; at = text.find(kFile, at + 1)) {
    const std::size_t path_at = at + kFile.size();
    const std::size_t line_at = text.find(kLine, path_at);
    const std::size_t in_at = line_at == std::string_view::npos ? line_at : text.find(kIn, line_at);
    if (in_at == std::string_view::npos) break;
    const std::string_view path = text.substr(path_at, line_at - path_at);
    const bool of_torch =
        path.starts_with("torch/") || path.starts_with("<") || path.find("-packages/torch/") != std::string_view::npos;
    if (of_torch && found_user) continue;
    found_user = found_user || !of_torch;
    const std::string_view function = text.substr(in_at + kIn.size());
    innermost = std::string(path.substr(path.rfind('/') + 1)) + ":" +
                std::string(text.substr(line_at + kLine.size(), in_at - line_at - kLine.size())) + " in " +
                std::string(function.substr(0, function.find('\n')));
  }
  return innermost;
}

std::string module_of(const schema::Node& node) {
  // "key,path,type;key,path,type": outermost first. A module called again has "@1" after its path.
  const auto stack = node.get_metadata().find("nn_module_stack");
  if (stack == node.get_metadata().end()) return {};
  const std::string last = stack->second.substr(stack->second.rfind(';') + 1);
  const std::size_t first = last.find(',');
  const std::size_t second = first == std::string::npos ? first : last.find(',', first + 1);
  if (second == std::string::npos) return {};
  const std::string path = last.substr(first + 1, second - first - 1);
  if (path.starts_with("_empty_nn_module_stack")) return {};
  return path.substr(0, path.find('@'));
}

}  // namespace motley
