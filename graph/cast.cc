#include "graph/cast.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace motley {

Graph cast(Graph graph, DType dtype) {
  MOTLEY_CHECK(is_floating(dtype), to_string(dtype));
  for (Tensor& tensor : graph.tensors) {
    if (is_floating(tensor.dtype)) tensor.dtype = dtype;
  }
  for (Op& op : graph.ops) {
    for (Argument& argument : op.arguments) {
      auto* const named = std::get_if<DType>(&argument.value);
      if (named != nullptr && is_floating(*named)) *named = dtype;
    }
  }
  graph.fingerprint += ":" + to_string(dtype);
  return graph;
}

std::optional<DType> parse_floating(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, DType>, 4> kNames = {{{"float32", DType::kFloat32},
                                                                                {"float16", DType::kFloat16},
                                                                                {"bfloat16", DType::kBFloat16},
                                                                                {"float64", DType::kFloat64}}};
  for (const auto& [name, dtype] : kNames) {
    if (text == name || text == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace motley
