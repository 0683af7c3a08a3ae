#include "graph/scatter.h"

#include <string_view>

#include "graph/op_traits.h"

namespace motley {
namespace {

// An integer argument, or the schema's default.
std::int64_t integer(const Call& call, std::string_view name, std::int64_t otherwise) {
  const ArgumentValue* value = find_argument(call.arguments, name);
  const BatchExpr* size = value == nullptr ? nullptr : std::get_if<BatchExpr>(value);
  return size != nullptr && size->is_constant() ? size->at(1) : otherwise;
}

// "aten::slice_scatter.default"(whole, part, then the view's own arguments but for its input).
Call same_arguments(const Call& view, const std::string& target, TensorId whole, TensorId part) {
  Call call;
  call.target = target;
  call.add("self", whole);
  call.add("src", part);
  for (std::size_t i = 1; i < view.arguments.size(); ++i) call.arguments.push_back(view.arguments[i]);
  return call;
}

Call slice_scatter(TensorId whole, TensorId part, std::int64_t dim, const BatchExpr& start, const BatchExpr& end) {
  Call call;
  call.target = "aten::slice_scatter.default";
  call.add("self", whole);
  call.add("src", part);
  call.arguments.push_back({"dim", BatchExpr(dim)});
  call.arguments.push_back({"start", start});
  call.arguments.push_back({"end", end});
  return call;
}

Call on_part(const std::string& target, TensorId part, std::vector<Argument> arguments) {
  Call call;
  call.target = target;
  call.add("self", part);
  for (Argument& argument : arguments) call.arguments.push_back(std::move(argument));
  return call;
}

Call inverse_permute(const Call& view, TensorId part, std::size_t rank) {
  std::vector<BatchExpr> inverse(rank);
  const auto* dims = std::get_if<std::vector<BatchExpr>>(find_argument(view.arguments, "dims"));
  for (std::size_t i = 0; dims != nullptr && i < dims->size(); ++i) {
    std::int64_t dim = (*dims)[i].at(1);
    if (dim < 0) dim += static_cast<std::int64_t>(rank);
    inverse[static_cast<std::size_t>(dim)] = static_cast<std::int64_t>(i);
  }
  return on_part("aten::permute.default", part, {{"dims", inverse}});
}

}  // namespace

std::optional<Call> scatter_call(const Call& view, const std::vector<TensorMeta>& outputs, std::size_t place,
                                 const Shape& shape, TensorId whole, TensorId part) {
  const std::string_view base = base_name(view.target);
  if (base == "slice") return same_arguments(view, "aten::slice_scatter.default", whole, part);
  if (base == "select") return same_arguments(view, "aten::select_scatter.default", whole, part);
  if (base == "diagonal") return same_arguments(view, "aten::diagonal_scatter.default", whole, part);
  if (base == "as_strided") return same_arguments(view, "aten::as_strided_scatter.default", whole, part);
  if (base == "transpose" || base == "swapaxes" || base == "swapdims" || base == "t" || base == "mT" ||
      base == "numpy_T") {
    return on_part(view.target, part, {view.arguments.begin() + 1, view.arguments.end()});
  }
  if (base == "permute") return inverse_permute(view, part, shape.size());
  if (base == "unbind") {
    Call call = same_arguments(view, "aten::select_scatter.default", whole, part);
    call.arguments.resize(2);
    call.arguments.push_back({"dim", BatchExpr(integer(view, "dim", 0))});
    call.arguments.push_back({"index", BatchExpr(static_cast<std::int64_t>(place))});
    return call;
  }
  if (base == "narrow") {
    const ArgumentValue* start = find_argument(view.arguments, "start");
    const ArgumentValue* length = find_argument(view.arguments, "length");
    const auto* from = start == nullptr ? nullptr : std::get_if<BatchExpr>(start);
    const auto* count = length == nullptr ? nullptr : std::get_if<BatchExpr>(length);
    if (from == nullptr || count == nullptr) return std::nullopt;
    return slice_scatter(whole, part, integer(view, "dim", 0), *from, *from + *count);
  }
  if (base == "split" || base == "split_with_sizes" || base == "chunk" || base == "tensor_split") {
    const std::int64_t dim = integer(view, "dim", 0);
    const auto at = static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(shape.size()) : dim);
    BatchExpr start;
    for (std::size_t i = 0; i < place; ++i) start = start + outputs[i].shape[at];
    return slice_scatter(whole, part, dim, start, start + outputs[place].shape[at]);
  }
  if (base == "view" || base == "reshape" || base == "flatten" || base == "ravel" || base == "unflatten" ||
      base == "squeeze" || base == "unsqueeze" || base == "_unsafe_view" || base == "_reshape_alias" ||
      base == "alias" || base == "detach") {
    if (overload_name(view.target) == "dtype") return std::nullopt;
    return on_part("aten::reshape.default", part, {{"shape", std::vector<BatchExpr>(shape.begin(), shape.end())}});
  }
  return std::nullopt;
}

}  // namespace motley
