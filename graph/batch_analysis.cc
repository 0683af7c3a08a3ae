#include "graph/batch_analysis.h"

#include <algorithm>
#include <utility>

#include "graph/batch_flow.h"

namespace motley {
namespace {

using Kind = BatchFlow::Kind;

BatchLayout layout_of(const TensorFlow& tensor) {
  BatchLayout layout;
  const BatchFlow& flow = tensor.flow;
  if (tensor.index || flow.kind == Kind::kReordered || flow.kind == Kind::kMixed) {
    layout.kind = BatchLayout::Kind::kMixed;
  } else if (flow.kind == Kind::kSplit) {
    layout = {BatchLayout::Kind::kSplit, flow.dim, flow.outer};
  } else if (flow.kind == Kind::kPartialSum) {
    layout.kind = BatchLayout::Kind::kPartialSum;
  } else if (flow.kind == Kind::kPartialMean) {
    layout.kind = BatchLayout::Kind::kPartialMean;
  }
  return layout;
}

// A number among the arguments that is a multiple of the batch size, as in sum / (tokens of the batch).
const BatchExpr* batch_scalar(const Op& op) {
  for (const Argument& argument : op.arguments) {
    const auto* value = std::get_if<BatchExpr>(&argument.value);
    if (value != nullptr && value->depends_on_batch()) return value;
  }
  return nullptr;
}

RuleResult apply(const FlowQuery& query) {
  switch (query.facts.batch) {
    case BatchRule::kElementwise:
    case BatchRule::kIdentity:
      return elementwise_rule(query);
    case BatchRule::kReshape:
      return reshape_rule(query);
    case BatchRule::kPermute:
      return permute_rule(query);
    case BatchRule::kExpand:
      return expand_rule(query);
    case BatchRule::kRepeat:
      return repeat_rule(query);
    case BatchRule::kRepeatInterleave:
      return repeat_interleave_rule(query);
    case BatchRule::kSelect:
      return select_rule(query);
    case BatchRule::kSlice:
      return slice_rule(query);
    case BatchRule::kSelectScatter:
      return select_scatter_rule(query);
    case BatchRule::kAlongDim:
    case BatchRule::kSort:
      return along_dim_rule(query);
    case BatchRule::kReduce:
      return reduce_rule(query);
    case BatchRule::kCat:
      return cat_rule(query);
    case BatchRule::kStack:
      return stack_rule(query);
    case BatchRule::kPad:
      return pad_rule(query);
    case BatchRule::kContract:
      return contract_rule(query);
    case BatchRule::kLeading:
      return leading_rule(query);
    case BatchRule::kTrailing:
      return trailing_rule(query);
    case BatchRule::kEmbedding:
      return embedding_rule(query);
    case BatchRule::kGather:
      return gather_rule(query);
    case BatchRule::kRowLoss:
      return row_loss_rule(query);
    case BatchRule::kElementLoss:
      return element_loss_rule(query);
    case BatchRule::kRecurrent:
      return recurrent_rule(query);
    case BatchRule::kFactory:
      return factory_rule(query);
    case BatchRule::kUnknown:
      return unknown_rule(query);
    case BatchRule::kIndex:
    case BatchRule::kIndexPut:
    case BatchRule::kIndexAdd:
    case BatchRule::kGroupedRows:
    case BatchRule::kBags:
    case BatchRule::kArange:
    case BatchRule::kMixes:
      return std::nullopt;
  }
  return std::nullopt;
}

bool makes_batch(const Op& op, const Graph& graph) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](TensorId id) { return id != kNone && mentions_batch(graph.tensors[id].shape); });
}

bool makes_batch_dimension(BatchRule rule) {
  return rule == BatchRule::kExpand || rule == BatchRule::kRepeat || rule == BatchRule::kFactory;
}

class Analysis {
 public:
  explicit Analysis(Graph& graph) : graph_(graph), flows_(graph.tensors.size()) {}

  void run() {
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      const Tensor& tensor = graph_.tensors[id];
      if (tensor.producer == kNone && mentions_batch(tensor.shape)) {
        const auto dim = batch_dimension(tensor.shape);
        flows_[id].flow = dim ? BatchFlow::split(*dim, 1) : BatchFlow::mixed();
      }
    }
    for (Op& op : graph_.ops) analyze(op);
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) graph_.tensors[id].layout = layout_of(flows_[id]);
    if (graph_.loss != kNone) {
      BatchLayout& loss = graph_.tensors[graph_.loss].layout;
      if (loss.kind == BatchLayout::Kind::kIndependent) loss.kind = BatchLayout::Kind::kPartialMean;
    }
  }

 private:
  void analyze(Op& op) {
    FlowQuery query{graph_, op, facts_of(op.target), {}, kNone};
    for (TensorId input : op.inputs) query.inputs.push_back(flows_[input]);
    op.completes.clear();
    const auto partial = settle_partials(op, query);
    for (TensorId output : op.outputs) {
      if (output == kNone) continue;
      query.output = output;
      flows_[output] = partial ? TensorFlow{*partial, std::nullopt, false} : flow_of(query);
    }
  }

  // Where the op is linear in its partial inputs, its result is partial alike; other partial inputs are made whole.
  std::optional<BatchFlow> settle_partials(Op& op, FlowQuery& query) {
    std::vector<std::size_t> places;
    for (std::size_t place = 0; place < query.inputs.size(); ++place) {
      if (query.flow(place).is_partial()) places.push_back(place);
    }
    if (places.empty() || query.facts.batch == BatchRule::kFactory) return std::nullopt;
    const auto complete = [&](std::size_t place) {
      op.completes.push_back(static_cast<std::int32_t>(place));
      query.inputs[place] = TensorFlow{};
    };
    const std::size_t first = places.front();
    if (query.facts.linearity == Linearity::kQuotient || functional_name(op.target) == "mul") {
      // One factor may stay partial: of a quotient the dividend.
      for (std::size_t place : places) {
        if (place != first || (query.facts.linearity == Linearity::kQuotient && place != 0)) complete(place);
      }
    }
    if (auto result = linear_result(op, query)) return result;
    for (std::size_t place : places) {
      if (query.flow(place).is_partial()) complete(place);
    }
    std::sort(op.completes.begin(), op.completes.end());
    return std::nullopt;
  }

  static std::optional<BatchFlow> linear_result(const Op& op, const FlowQuery& query) {
    std::optional<BatchFlow> partial;
    bool whole = false;  // a term that every replica has in full
    for (const TensorFlow& input : query.inputs) {
      if (!input.flow.is_partial()) {
        if (input.flow.kind != Kind::kIndependent || input.index) return std::nullopt;
        whole = true;
      } else if (partial && partial->kind != input.flow.kind) {
        return std::nullopt;
      } else {
        partial = input.flow;
      }
    }
    if (!partial || makes_batch(op, query.graph)) return std::nullopt;
    const std::string_view name = functional_name(op.target);
    const bool product = name == "mul";
    if (query.facts.linearity == Linearity::kQuotient || product) {
      if (const Argument* mode = find_argument(op, "rounding_mode")) {
        if (std::holds_alternative<std::string>(mode->value)) return std::nullopt;
      }
      const BatchExpr* scale = batch_scalar(op);
      if (scale == nullptr) return partial;
      const bool becomes_mean = !product && partial->kind == Kind::kPartialSum;
      const bool becomes_sum = product && partial->kind == Kind::kPartialMean;
      if (scale->batch_factor() == 0 || !(becomes_mean || becomes_sum)) return std::nullopt;
      return BatchFlow{becomes_mean ? Kind::kPartialMean : Kind::kPartialSum};
    }
    if (query.facts.linearity != Linearity::kLinear || batch_scalar(op) != nullptr) return std::nullopt;
    if (name == "add" || name == "sub" || name == "rsub" || name == "pad" || name == "constant_pad_nd") {
      for (std::string_view term : {"other", "value"}) {
        const Argument* argument = find_argument(op, term);
        if (argument == nullptr) continue;
        const auto* size = std::get_if<BatchExpr>(&argument->value);
        const auto* real = std::get_if<double>(&argument->value);
        whole = whole || (size != nullptr && !(*size == BatchExpr(0))) || (real != nullptr && *real != 0);
      }
    }
    // A mean plus what all have is a mean; a sum would count it once per replica.
    if (whole && partial->kind == Kind::kPartialSum) return std::nullopt;
    return partial;
  }

  TensorFlow flow_of(const FlowQuery& query) {
    TensorFlow mixed{BatchFlow::mixed(), std::nullopt, false};
    if (auto special = special_flow(query)) return *special;

    FlowQuery plain = query;
    std::optional<RowIndex> index;
    OrderId order = kSampleOrder;
    bool rows = false;
    for (TensorFlow& input : plain.inputs) {
      if (query.facts.batch == BatchRule::kFactory) input.index.reset();
      if (input.flow.kind == Kind::kMixed && query.facts.batch != BatchRule::kFactory) return mixed;
      if (input.index) index = input.index;
      if (!input.flow.has_rows()) continue;
      const OrderId own = input.flow.kind == Kind::kReordered ? input.flow.order : kSampleOrder;
      if (rows && own != order && query.facts.batch != BatchRule::kFactory) return mixed;
      order = query.facts.batch == BatchRule::kFactory ? kSampleOrder : own;
      rows = true;
      input.flow.kind = Kind::kSplit;
    }
    if (index && !(index = carried_index(query, *index))) return mixed;
    if (query.facts.batch == BatchRule::kElementwise && batch_scalar(query.op) != nullptr) return mixed;
    if (!rows && !makes_batch_dimension(query.facts.batch)) {
      return mentions_batch(query.output_shape()) || batch_scalar(query.op) != nullptr ? mixed : TensorFlow{};
    }
    if (!rows && query.facts.batch != BatchRule::kFactory && !mentions_batch(query.output_shape())) return {};
    RuleResult result = apply(plain);
    if (!result) return mixed;
    if (result->kind == Kind::kSplit) {
      const auto dim = batch_dimension(query.output_shape());
      if (!dim || *dim != result->dim || query.output_shape()[*dim].batch_factor() % result->outer != 0) return mixed;
      if (order != kSampleOrder) {
        if (result->outer != 1 || !(query.output_shape()[*dim] == rows_of_order(order))) return mixed;
        result = BatchFlow{Kind::kReordered, *dim, 1, order};
      }
    }
    return TensorFlow{*result, index, query.facts.batch == BatchRule::kFactory};
  }

  // What becomes of row indices in an op that does not index with them; nothing when they lose their meaning.
  static std::optional<RowIndex> carried_index(const FlowQuery& query, RowIndex index) {
    const bool integer = !is_floating(query.graph.tensors[query.output].dtype);
    if (!integer || query.op.inputs.size() != 1) return std::nullopt;
    switch (query.facts.batch) {
      case BatchRule::kIdentity:
      case BatchRule::kReshape:
        return index;
      case BatchRule::kExpand:
        index.counts = index.permutes = false;
        return index;
      case BatchRule::kElementwise:
        break;
      default:
        return std::nullopt;
    }
    // Of a row that is one of c per token, the token.
    const std::int64_t divisor = integer_argument(query.op, "other", 0);
    const std::string_view name = functional_name(query.op.target);
    const Argument* mode = find_argument(query.op, "rounding_mode");
    const bool floors = name == "floor_divide" || (name == "div" && mode != nullptr);
    if (!floors || divisor < 1 || index.points_into != kSampleOrder) return std::nullopt;
    if (index.range.batch_factor() == 0 || index.range.batch_factor() % divisor != 0) return std::nullopt;
    return RowIndex{kSampleOrder, BatchExpr::batch(index.range.batch_factor() / divisor), false, false};
  }

  std::optional<TensorFlow> special_flow(const FlowQuery& query) {
    switch (query.facts.batch) {
      case BatchRule::kIndex:
        return index_rule(query);
      case BatchRule::kIndexPut:
        return index_put_rule(query);
      case BatchRule::kIndexAdd:
        return index_add_rule(query);
      case BatchRule::kGroupedRows:
        return grouped_rows_rule(query);
      case BatchRule::kBags:
        return bags_rule(query);
      case BatchRule::kSort: {
        const bool whole_row = query.shape(0).size() == 1 && query.flow(0).has_rows();
        if (!whole_row) return std::nullopt;
        if (last_sorted_ != &query.op) order_ranges_.push_back(query.shape(0)[0]);
        last_sorted_ = &query.op;
        return sort_rule(query, static_cast<OrderId>(order_ranges_.size() - 1));
      }
      case BatchRule::kArange: {
        const Shape& shape = query.output_shape();
        if (!mentions_batch(shape)) return TensorFlow{};
        const bool from_zero =
            integer_argument(query.op, "start", 0) == 0 && integer_argument(query.op, "step", 1) == 1;
        if (!from_zero || shape[0].batch_factor() == 0) return std::nullopt;
        return TensorFlow{BatchFlow::split(0, 1), RowIndex{kSampleOrder, shape[0], true, true}, false};
      }
      default:
        return std::nullopt;
    }
  }

  const BatchExpr& rows_of_order(OrderId order) const { return order_ranges_[static_cast<std::size_t>(order)]; }

  Graph& graph_;
  std::vector<TensorFlow> flows_;
  std::vector<BatchExpr> order_ranges_;  // by OrderId
  const Op* last_sorted_ = nullptr;
};

}  // namespace

void analyze_batch(Graph& graph) { Analysis(graph).run(); }

}  // namespace motley
