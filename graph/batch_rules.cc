// Rules of shape: how the batch's dimension moves through elementwise ops, views and reductions.

#include <algorithm>

#include "graph/batch_flow.h"

namespace motley {
namespace {

using Kind = BatchFlow::Kind;

BatchFlow same(const FlowQuery& query, std::size_t place, std::int64_t dim) {
  return BatchFlow::split(static_cast<std::int32_t>(dim), query.flow(place).outer);
}

std::int64_t factor(const Shape& shape, std::int64_t dim) {
  return shape[static_cast<std::size_t>(dim)].batch_factor();
}

// Constant product of the sizes before `dim`; 0 when one of them depends on the batch.
std::int64_t before(const Shape& shape, std::int64_t dim) {
  std::int64_t product = 1;
  for (std::int64_t i = 0; i < dim; ++i) {
    const BatchExpr& size = shape[static_cast<std::size_t>(i)];
    if (!size.is_constant()) return 0;
    product *= size.at(1);
  }
  return product;
}

std::vector<std::int64_t> reduced_dims(const FlowQuery& query) {
  const auto rank = query.shape(0).size();
  std::vector<std::int64_t> dims;
  for (std::string_view name : {"dim", "dims"}) {
    if (auto given = integers_argument(query.op, name)) dims = *given;
  }
  for (std::int64_t& dim : dims) dim = wrapped(dim, rank);
  if (dims.empty()) {
    for (std::size_t i = 0; i < rank; ++i) dims.push_back(static_cast<std::int64_t>(i));
  }
  return dims;
}

bool contains(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::optional<std::size_t> FlowQuery::first_with_rows() const {
  for (std::size_t place = 0; place < inputs.size(); ++place) {
    if (inputs[place].flow.has_rows()) return place;
  }
  return std::nullopt;
}

std::optional<std::int32_t> batch_dimension(const Shape& shape) {
  std::optional<std::int32_t> found;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].depends_on_batch()) continue;
    if (found || shape[i].batch_factor() == 0) return std::nullopt;
    found = static_cast<std::int32_t>(i);
  }
  return found;
}

bool mentions_batch(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const BatchExpr& size) { return size.depends_on_batch(); });
}

std::int64_t wrapped(std::int64_t dim, std::size_t rank) {
  return dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
}

std::optional<std::vector<std::int64_t>> integers_argument(const Op& op, std::string_view name) {
  const Argument* found = find_argument(op, name);
  if (found == nullptr) return std::nullopt;
  if (const auto* one = std::get_if<BatchExpr>(&found->value)) {
    if (!one->is_constant()) return std::nullopt;
    return std::vector<std::int64_t>{one->at(1)};
  }
  const auto* many = std::get_if<std::vector<BatchExpr>>(&found->value);
  if (many == nullptr) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const BatchExpr& each : *many) {
    if (!each.is_constant()) return std::nullopt;
    values.push_back(each.at(1));
  }
  return values;
}

std::vector<std::size_t> argument_places(const Op& op, std::string_view name) {
  std::vector<std::size_t> places;
  const Argument* found = find_argument(op, name);
  if (found == nullptr) return places;
  if (const auto* input = std::get_if<InputRef>(&found->value)) {
    if (input->index != kNone) places.push_back(static_cast<std::size_t>(input->index));
  } else if (const auto* inputs = std::get_if<std::vector<InputRef>>(&found->value)) {
    for (InputRef each : *inputs) {
      if (each.index != kNone) places.push_back(static_cast<std::size_t>(each.index));
    }
  }
  return places;
}

// Shapes are aligned at their ends; all that carry the batch must carry it in the same dimension and order.
RuleResult elementwise_rule(const FlowQuery& query) {
  const auto rank = static_cast<std::int64_t>(query.output_shape().size());
  RuleResult result;
  for (std::size_t place = 0; place < query.inputs.size(); ++place) {
    if (query.flow(place).kind != Kind::kSplit) continue;
    const auto dim = rank - static_cast<std::int64_t>(query.shape(place).size()) + query.flow(place).dim;
    if (dim < 0) return std::nullopt;
    const BatchFlow flow = same(query, place, dim);
    if (result && !(*result == flow)) return std::nullopt;
    result = flow;
  }
  return result;
}

// Flattened, the batch stands inside `outer` times the sizes before its dimension, whatever the shape.
RuleResult reshape_rule(const FlowQuery& query) {
  const auto place = query.first_with_rows();
  const auto dim = batch_dimension(query.output_shape());
  if (!place || !dim) return std::nullopt;
  const std::int64_t around = before(query.shape(*place), query.flow(*place).dim) * query.flow(*place).outer;
  const std::int64_t ahead = before(query.output_shape(), *dim);
  if (around == 0 || ahead == 0 || around % ahead != 0) return std::nullopt;
  const std::int64_t outer = around / ahead;
  if (factor(query.output_shape(), *dim) % outer != 0) return std::nullopt;
  return BatchFlow::split(*dim, outer);
}

RuleResult permute_rule(const FlowQuery& query) {
  const auto rank = query.shape(0).size();
  const std::int64_t dim = query.flow(0).dim;
  const std::string_view name = functional_name(query.op.target);
  if (name == "permute") {
    const auto dims = integers_argument(query.op, "dims");
    if (!dims) return std::nullopt;
    for (std::size_t i = 0; i < dims->size(); ++i) {
      if (wrapped((*dims)[i], rank) == dim) return same(query, 0, static_cast<std::int64_t>(i));
    }
    return std::nullopt;
  }
  if (name == "numpy_T") return same(query, 0, static_cast<std::int64_t>(rank) - 1 - dim);
  std::int64_t a = 0;
  std::int64_t b = 1;
  if (name == "mT" || name == "adjoint") {
    a = wrapped(-2, rank);
    b = wrapped(-1, rank);
  } else if (name == "transpose" || name == "swapdims") {
    a = wrapped(integer_argument(query.op, "dim0", 0), rank);
    b = wrapped(integer_argument(query.op, "dim1", 1), rank);
  } else if (name == "swapaxes") {
    a = wrapped(integer_argument(query.op, "axis0", 0), rank);
    b = wrapped(integer_argument(query.op, "axis1", 1), rank);
  } else if (name == "movedim" || name == "moveaxis") {
    const auto from = integers_argument(query.op, "source");
    const auto to = integers_argument(query.op, "destination");
    if (!from || !to || from->size() != 1 || to->size() != 1) return std::nullopt;
    const std::int64_t source = wrapped((*from)[0], rank);
    const std::int64_t target = wrapped((*to)[0], rank);
    if (dim == source) return same(query, 0, target);
    std::int64_t moved = dim;
    if (source < dim) --moved;
    if (target <= moved) ++moved;
    return same(query, 0, moved);
  } else if (name == "t" && rank < 2) {
    return same(query, 0, dim);
  }
  return same(query, 0, dim == a ? b : dim == b ? a : dim);
}

RuleResult expand_rule(const FlowQuery& query) {
  if (query.first_with_rows()) return elementwise_rule(query);
  const auto dim = batch_dimension(query.output_shape());
  if (!dim) return std::nullopt;
  return BatchFlow::split(*dim, 1);
}

RuleResult repeat_rule(const FlowQuery& query) {
  const auto dim = batch_dimension(query.output_shape());
  if (!dim) return std::nullopt;
  if (!query.first_with_rows()) return BatchFlow::split(*dim, 1);
  const auto added = static_cast<std::int64_t>(query.output_shape().size() - query.shape(0).size());
  const std::int64_t copies = factor(query.output_shape(), *dim) / factor(query.shape(0), query.flow(0).dim);
  if (*dim != query.flow(0).dim + added || copies < 1) return std::nullopt;
  return BatchFlow::split(*dim, query.flow(0).outer * copies);
}

RuleResult repeat_interleave_rule(const FlowQuery& query) {
  const auto dim = batch_dimension(query.output_shape());
  if (!dim || query.output_shape().size() != query.shape(0).size() || query.op.inputs.size() != 1) return std::nullopt;
  if (!query.first_with_rows()) return std::nullopt;
  return same(query, 0, query.flow(0).dim);
}

RuleResult select_rule(const FlowQuery& query) {
  const std::int64_t selected = wrapped(integer_argument(query.op, "dim", 0), query.shape(0).size());
  const std::int64_t dim = query.flow(0).dim;
  if (dim == selected) return std::nullopt;
  return same(query, 0, dim > selected ? dim - 1 : dim);
}

RuleResult select_scatter_rule(const FlowQuery& query) {
  const BatchFlow& whole = query.flow(0);
  const std::int64_t selected = wrapped(integer_argument(query.op, "dim", 0), query.shape(0).size());
  if (whole.kind != Kind::kSplit || whole.dim == selected) return std::nullopt;
  const BatchFlow part = same(query, 0, whole.dim > selected ? whole.dim - 1 : whole.dim);
  if (query.flow(1).kind != Kind::kIndependent && !(query.flow(1) == part)) return std::nullopt;
  return whole;
}

// A cut of the batch's own dimension keeps whole blocks of B * inner.
RuleResult slice_rule(const FlowQuery& query) {
  const Op& op = query.op;
  const std::int64_t dim = query.flow(0).dim;
  const std::int64_t cut = wrapped(integer_argument(op, "dim", 0), query.shape(0).size());
  if (cut != dim) return same(query, 0, dim);
  const std::int64_t all = factor(query.shape(0), dim);
  const std::int64_t kept = factor(query.output_shape(), dim);
  if (kept == all) return same(query, 0, dim);
  const std::int64_t inner = all / query.flow(0).outer;
  if (kept == 0 || kept % inner != 0) return std::nullopt;
  if (const Argument* start = find_argument(op, "start")) {
    const auto* from = std::get_if<BatchExpr>(&start->value);
    if (from == nullptr ||
        !(*from == BatchExpr(0) || (from->batch_factor() > 0 && from->batch_factor() % inner == 0))) {
      return std::nullopt;
    }
    if (integer_argument(op, "step", 1) != 1) return std::nullopt;
    return BatchFlow::split(static_cast<std::int32_t>(dim), kept / inner);
  }
  for (TensorId output : op.outputs) {
    const bool whole = output != kNone && factor(query.graph.tensors[output].shape, dim) % inner == 0;
    if (!whole) return std::nullopt;
  }
  return BatchFlow::split(static_cast<std::int32_t>(dim), kept / inner);
}

RuleResult along_dim_rule(const FlowQuery& query) {
  const RuleResult result = elementwise_rule(query);
  if (!result) return std::nullopt;
  const auto rank = query.output_shape().size();
  std::vector<std::int64_t> dims = {-1};
  for (std::string_view name : {"dim", "dims"}) {
    if (auto given = integers_argument(query.op, name)) dims = *given;
  }
  for (std::int64_t dim : dims) {
    if (wrapped(dim, rank) == result->dim) return std::nullopt;
  }
  return result;
}

RuleResult reduce_rule(const FlowQuery& query) {
  const std::vector<std::int64_t> dims = reduced_dims(query);
  const std::int64_t dim = query.flow(0).dim;
  if (contains(dims, dim)) {
    const std::string_view name = functional_name(query.op.target);
    if (name == "sum" || name == "nansum" || name == "count_nonzero") return BatchFlow{Kind::kPartialSum};
    if (name == "mean") return BatchFlow{Kind::kPartialMean};
    return std::nullopt;
  }
  if (flag_argument(query.op, "keepdim", false)) return same(query, 0, dim);
  return same(query, 0, dim - std::count_if(dims.begin(), dims.end(), [&](std::int64_t each) { return each < dim; }));
}

RuleResult cat_rule(const FlowQuery& query) {
  const auto place = query.first_with_rows();
  const std::int64_t joined = wrapped(integer_argument(query.op, "dim", 0), query.output_shape().size());
  const BatchFlow first = query.flow(*place);
  const std::int64_t inner = factor(query.shape(*place), first.dim) / first.outer;
  std::int64_t outer = 0;
  for (std::size_t i = 0; i < query.inputs.size(); ++i) {
    const BatchFlow& flow = query.flow(i);
    if (flow.kind != Kind::kSplit || flow.dim != first.dim) return std::nullopt;
    if (factor(query.shape(i), flow.dim) != flow.outer * inner) return std::nullopt;
    if (joined != first.dim && flow.outer != first.outer) return std::nullopt;
    outer += flow.outer;
  }
  return BatchFlow::split(first.dim, joined == first.dim ? outer : first.outer);
}

RuleResult stack_rule(const FlowQuery& query) {
  const std::int64_t added = wrapped(integer_argument(query.op, "dim", 0), query.output_shape().size());
  const BatchFlow first = query.flow(0);
  for (const TensorFlow& each : query.inputs) {
    if (each.flow.kind != Kind::kSplit || !(each.flow == first)) return std::nullopt;
  }
  return same(query, 0, first.dim >= added ? first.dim + 1 : first.dim);
}

RuleResult pad_rule(const FlowQuery& query) {
  auto given = integers_argument(query.op, "pad");
  if (!given) given = integers_argument(query.op, "padding");
  if (!given) return std::nullopt;
  const std::int64_t from_end = static_cast<std::int64_t>(query.shape(0).size()) - 1 - query.flow(0).dim;
  for (std::int64_t i = 2 * from_end; i < 2 * from_end + 2 && i < static_cast<std::int64_t>(given->size()); ++i) {
    if ((*given)[static_cast<std::size_t>(i)] != 0) return std::nullopt;
  }
  return same(query, 0, query.flow(0).dim);
}

}  // namespace motley
