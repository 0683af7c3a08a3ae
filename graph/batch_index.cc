// Rules of rows and their indices: a model may sort its tokens, work on them in that order and put them back (mixture
// of experts), or count its samples and index with the counts (masks of transformers). A replica that does so with its
// own samples gets what the whole batch would give, once the rows are back in the order of samples.

#include <algorithm>

#include "graph/batch_flow.h"

namespace motley {
namespace {

using Kind = BatchFlow::Kind;

OrderId order_of(const BatchFlow& flow) { return flow.kind == Kind::kReordered ? flow.order : kSampleOrder; }

BatchFlow rows_in_order(std::int32_t dim, OrderId order) {
  if (order == kSampleOrder) return BatchFlow::split(dim, 1);
  return {Kind::kReordered, dim, 1, order};
}

// Advanced indexing: which dimensions of input 0 the op indexes, by which inputs.
struct Indexing {
  std::vector<std::pair<std::int64_t, std::size_t>> by;  // dimension, place
  std::int64_t rank = 0;                                 // of the indices, broadcast
  std::int64_t placed = 0;                               // where their dimensions stand in the result

  bool indexes(std::int64_t dim) const {
    return std::any_of(by.begin(), by.end(), [&](const auto& each) { return each.first == dim; });
  }
  // Where a dimension that is not indexed stands in the result.
  std::int64_t moved(std::int64_t dim) const {
    const auto gone = std::count_if(by.begin(), by.end(), [&](const auto& each) { return each.first < dim; });
    return dim - gone + (dim - gone >= placed ? rank : 0);
  }
};

std::optional<Indexing> indexing_of(const FlowQuery& query) {
  Indexing result;
  if (const Argument* list = find_argument(query.op, "indices")) {
    const auto* inputs = std::get_if<std::vector<InputRef>>(&list->value);
    if (inputs == nullptr) return std::nullopt;
    for (std::size_t dim = 0; dim < inputs->size(); ++dim) {
      const std::int32_t place = (*inputs)[dim].index;
      if (place != kNone) result.by.emplace_back(dim, place);
    }
  } else {
    const std::int32_t place = input_place(query.op, "index");
    const std::int64_t dim = wrapped(integer_argument(query.op, "dim", 0), query.shape(0).size());
    if (place == kNone) return std::nullopt;
    result.by.emplace_back(dim, place);
  }
  if (result.by.empty()) return std::nullopt;
  for (const auto& [dim, place] : result.by) {
    const Tensor& index = query.graph.tensors[query.op.inputs[place]];
    if (index.dtype == DType::kBool) return std::nullopt;
    result.rank = std::max(result.rank, static_cast<std::int64_t>(index.shape.size()));
  }
  const std::int64_t first = result.by.front().first;
  const bool adjacent = result.by.back().first - first + 1 == static_cast<std::int64_t>(result.by.size());
  result.placed = adjacent ? first : 0;
  return result;
}

// How the indices' own rows stand, in dimensions of their broadcast shape; kIndependent when none has rows.
std::optional<BatchFlow> arrangement(const FlowQuery& query, const Indexing& indexing) {
  BatchFlow result;
  for (const auto& [dim, place] : indexing.by) {
    BatchFlow flow = query.flow(place);
    if (flow.kind == Kind::kIndependent) continue;
    if (!flow.has_rows()) return std::nullopt;
    flow.dim += static_cast<std::int32_t>(indexing.rank - static_cast<std::int64_t>(query.shape(place).size()));
    if (result.has_rows() && !(result == flow)) return std::nullopt;
    result = flow;
  }
  return result;
}

// Whether the index at `place` names rows of input 0's dimension `dim`, all of them this replica's.
bool names_rows(const FlowQuery& query, std::size_t place, const BatchFlow& self) {
  const auto& index = query.inputs[place].index;
  return index && self.has_rows() && self.outer == 1 && index->points_into == order_of(self) &&
         index->range == query.shape(0)[static_cast<std::size_t>(self.dim)];
}

// Flow of input0[indices], the rows that are read or written.
std::optional<BatchFlow> selected(const FlowQuery& query, const Indexing& indexing) {
  const BatchFlow& self = query.flow(0);
  auto rows = arrangement(query, indexing);
  if (!rows || query.inputs[0].index) return std::nullopt;
  const bool by_row = self.has_rows() && indexing.indexes(self.dim);
  for (const auto& [dim, place] : indexing.by) {
    const bool row_dimension = by_row && dim == self.dim;
    if (row_dimension ? !names_rows(query, place, self) : query.inputs[place].index.has_value()) return std::nullopt;
  }
  if (self.has_rows() && !by_row) {
    if (rows->kind != Kind::kIndependent) return std::nullopt;
    BatchFlow flow = self;
    flow.dim = static_cast<std::int32_t>(indexing.moved(self.dim));
    return flow;
  }
  if (self.kind == Kind::kMixed || self.is_partial()) return std::nullopt;
  if (rows->has_rows()) rows->dim += static_cast<std::int32_t>(indexing.placed);
  return rows;
}

}  // namespace

std::optional<TensorFlow> index_rule(const FlowQuery& query) {
  const auto indexing = indexing_of(query);
  if (!indexing) return std::nullopt;
  const auto flow = selected(query, *indexing);
  if (!flow) return std::nullopt;
  return TensorFlow{*flow, std::nullopt, false};
}

std::optional<TensorFlow> index_put_rule(const FlowQuery& query) {
  const auto indexing = indexing_of(query);
  const std::int32_t values = input_place(query.op, "values");
  if (!indexing || values == kNone) return std::nullopt;
  const TensorFlow& self = query.inputs[0];
  const TensorFlow& written = query.inputs[static_cast<std::size_t>(values)];
  const TensorFlow& by = query.inputs[indexing->by.front().second];

  // out[order[i]] = i: the inverse of an order.
  if (self.uniform && query.shape(0).size() == 1 && by.index && by.index->permutes && written.index &&
      written.index->counts && by.index->range == written.index->range && by.index->range == query.shape(0)[0]) {
    const RowIndex inverse{order_of(by.flow), by.index->range, false, true};
    return TensorFlow{rows_in_order(0, by.index->points_into), inverse, false};
  }

  const auto target = selected(query, *indexing);
  if (!target || written.index) return std::nullopt;
  BatchFlow source = written.flow;
  if (source.has_rows()) {
    const auto rank = static_cast<std::int64_t>(query.shape(0).size()) + indexing->rank -
                      static_cast<std::int64_t>(indexing->by.size());
    source.dim += static_cast<std::int32_t>(rank - static_cast<std::int64_t>(query.shape(values).size()));
  }
  const bool fits = source.kind == Kind::kIndependent || source == *target;
  if (!fits || !(self.flow.has_rows() || target->kind == Kind::kIndependent)) return std::nullopt;
  return TensorFlow{self.flow, std::nullopt, false};
}

std::optional<TensorFlow> index_add_rule(const FlowQuery& query) {
  const auto indexing = indexing_of(query);
  const std::int32_t source = input_place(query.op, "source");
  if (!indexing || source == kNone) return std::nullopt;
  const auto target = selected(query, *indexing);
  const TensorFlow& added = query.inputs[static_cast<std::size_t>(source)];
  if (!target || added.index || !(added.flow == *target)) return std::nullopt;
  if (!query.flow(0).has_rows() && target->has_rows()) return std::nullopt;
  return TensorFlow{query.flow(0), std::nullopt, false};
}

// Rows sorted by expert, and where each expert's rows end: each row meets the matrix that its sort key named.
std::optional<TensorFlow> grouped_rows_rule(const FlowQuery& query) {
  const std::int32_t ends = input_place(query.op, "offs");
  if (ends == kNone || query.flow(0).kind != Kind::kReordered || query.flow(0).dim != 0) return std::nullopt;
  if (query.flow(static_cast<std::size_t>(ends)).kind != Kind::kMixed) return std::nullopt;
  for (std::size_t place = 1; place < query.inputs.size(); ++place) {
    if (place != static_cast<std::size_t>(ends) && query.flow(place).kind != Kind::kIndependent) return std::nullopt;
  }
  return TensorFlow{query.flow(0), std::nullopt, false};
}

// Bags of rows of a table. Where each begins is counted from the replica's first index, which is right when all bags
// are of one size: when the beginnings are arange(0, indices, size).
std::optional<TensorFlow> bags_rule(const FlowQuery& query) {
  const std::int32_t indices = input_place(query.op, "indices");
  const std::int32_t offsets = input_place(query.op, "offsets");
  if (indices == kNone || offsets == kNone || flag_argument(query.op, "include_last_offset", false)) {
    return std::nullopt;
  }
  const OpId producer = query.graph.tensors[query.op.inputs[offsets]].producer;
  if (producer == kNone) return std::nullopt;
  const Op& begins = query.graph.ops[producer];
  const std::int64_t bags = query.shape(offsets)[0].batch_factor();
  const std::int64_t size = integer_argument(begins, "step", 1);
  const bool even = functional_name(begins.target) == "arange" && integer_argument(begins, "start", 0) == 0 &&
                    bags > 0 && query.shape(indices) == Shape{BatchExpr::batch(bags * size)};
  if (!even) return std::nullopt;
  for (std::size_t place = 0; place < query.inputs.size(); ++place) {
    if (static_cast<std::int32_t>(place) == offsets) continue;
    const bool table = place == 0;
    const BatchFlow wanted = table ? BatchFlow{} : BatchFlow::split(0, 1);  // weights of the rows stand as the indices
    if (query.inputs[place].index || !(query.flow(place) == wanted)) return std::nullopt;
  }
  const bool sums = query.output == query.op.outputs[0];
  return TensorFlow{sums ? BatchFlow::split(0, 1) : BatchFlow::mixed(), std::nullopt, false};
}

// Sorting one row of numbers along the batch: a new order. Sorting an order gives its inverse.
std::optional<TensorFlow> sort_rule(const FlowQuery& query, OrderId fresh_order) {
  const BatchFlow& self = query.flow(0);
  if (query.shape(0).size() != 1 || !self.has_rows() || self.outer != 1) return std::nullopt;
  const BatchExpr& range = query.shape(0)[0];
  const bool indices = functional_name(query.op.target) == "argsort" ||
                       (query.op.outputs.size() > 1 && query.output == query.op.outputs[1]);
  if (const auto& order = query.inputs[0].index) {
    if (!order->permutes || flag_argument(query.op, "descending", false)) return std::nullopt;
    const BatchFlow sorted = rows_in_order(0, order->points_into);
    if (!indices) return TensorFlow{sorted, RowIndex{order->points_into, range, true, true}, false};
    return TensorFlow{sorted, RowIndex{order_of(self), range, false, true}, false};
  }
  const BatchFlow sorted{Kind::kReordered, 0, 1, fresh_order};
  if (!indices) return TensorFlow{sorted, std::nullopt, false};
  return TensorFlow{sorted, RowIndex{order_of(self), range, false, true}, false};
}

}  // namespace motley
