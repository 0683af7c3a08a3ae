// Rules of layers: matrix products, convolutions, norms, losses, and what makes tensors from nothing.

#include <algorithm>
#include <string>

#include "graph/batch_flow.h"

namespace motley {
namespace {

using Kind = BatchFlow::Kind;

// A product as labels per dimension, as einsum writes it. Terms are added to the product, aligned at their ends.
struct Contraction {
  std::vector<std::size_t> operands;  // places
  std::vector<std::string> labels;    // one per operand
  std::string output;
  std::vector<std::size_t> terms;
};

// Labels of `rank` leading dimensions shared by broadcasting, from the end: 'z', 'y', ...
std::string broadcast_labels(std::size_t rank) {
  std::string labels;
  for (std::size_t i = rank; i-- > 0;) labels += static_cast<char>('z' - static_cast<int>(i));
  return labels;
}

std::optional<Contraction> einsum_labels(const Op& op) {
  const Argument* equation = find_argument(op, "equation");
  const auto* text = equation == nullptr ? nullptr : std::get_if<std::string>(&equation->value);
  if (text == nullptr || text->find('.') != std::string::npos) return std::nullopt;
  const std::size_t arrow = text->find("->");
  if (arrow == std::string::npos) return std::nullopt;
  Contraction result;
  result.labels.emplace_back();
  for (char each : text->substr(0, arrow)) {
    if (each == ',') {
      result.labels.emplace_back();
    } else if (each != ' ') {
      result.labels.back() += each;
    }
  }
  for (char each : text->substr(arrow + 2)) {
    if (each != ' ') result.output += each;
  }
  result.operands = argument_places(op, "tensors");
  if (result.operands.size() != result.labels.size()) return std::nullopt;
  return result;
}

std::optional<Contraction> product_labels(const FlowQuery& query) {
  const Op& op = query.op;
  const std::string_view name = functional_name(op.target);
  const auto rank = [&](std::size_t place) { return query.shape(place).size(); };
  if (name == "einsum") return einsum_labels(op);
  if (name == "addmm") return Contraction{{1, 2}, {"ik", "kj"}, "ij", {0}};
  if (name == "baddbmm") return Contraction{{1, 2}, {"bik", "bkj"}, "bij", {0}};
  if (name == "addbmm") return Contraction{{1, 2}, {"bik", "bkj"}, "ij", {0}};
  if (name == "linear") {
    const std::string lead = broadcast_labels(rank(0) - 1);
    Contraction result{{0, 1}, {lead + "k", rank(1) == 2 ? "jk" : "k"}, lead + (rank(1) == 2 ? "j" : ""), {}};
    if (query.inputs.size() > 2) result.terms = {2};
    return result;
  }
  if (query.inputs.size() != 2 || rank(0) == 0 || rank(1) == 0) return std::nullopt;
  const std::string left = broadcast_labels(rank(0) > 2 ? rank(0) - 2 : 0);
  const std::string right = broadcast_labels(rank(1) > 2 ? rank(1) - 2 : 0);
  return Contraction{{0, 1},
                     {left + (rank(0) > 1 ? "ik" : "k"), right + (rank(1) > 1 ? "kj" : "k")},
                     (left.size() > right.size() ? left : right) + (rank(0) > 1 ? "i" : "") + (rank(1) > 1 ? "j" : ""),
                     {}};
}

}  // namespace

// The batch's label in the output: samples stay apart. Summed over, and in every operand that is cut: a partial sum.
RuleResult contract_rule(const FlowQuery& query) {
  const auto product = product_labels(query);
  if (!product) return std::nullopt;
  char label = 0;
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < product->operands.size(); ++i) {
    const BatchFlow& flow = query.flow(product->operands[i]);
    if (flow.kind != Kind::kSplit) continue;
    if (static_cast<std::size_t>(flow.dim) >= product->labels[i].size()) return std::nullopt;
    const char here = product->labels[i][static_cast<std::size_t>(flow.dim)];
    if (label != 0 && (here != label || flow.outer != outer)) return std::nullopt;
    label = here;
    outer = flow.outer;
  }
  RuleResult result;
  if (label != 0) {
    const std::size_t position = product->output.find(label);
    result = position == std::string::npos ? BatchFlow{Kind::kPartialSum}
                                           : BatchFlow::split(static_cast<std::int32_t>(position), outer);
  }
  for (std::size_t place : product->terms) {
    const BatchFlow& flow = query.flow(place);
    if (flow.kind == Kind::kSplit) {
      const auto shift = static_cast<std::int32_t>(query.output_shape().size() - query.shape(place).size());
      if (result && !(*result == BatchFlow::split(flow.dim + shift, flow.outer))) return std::nullopt;
      if (!result) return std::nullopt;
    } else if (result && result->kind == Kind::kPartialSum) {
      return std::nullopt;  // every replica would add the term
    }
  }
  return result;
}

RuleResult leading_rule(const FlowQuery& query) {
  const BatchFlow& flow = query.flow(0);
  if (flow.kind != Kind::kSplit) return std::nullopt;
  const bool any_dimension = functional_name(query.op.target) == "one_hot";
  if (flow.dim != 0 && !any_dimension) return std::nullopt;
  const auto dim = static_cast<std::size_t>(flow.dim);
  if (dim >= query.output_shape().size() || !(query.output_shape()[dim] == query.shape(0)[dim])) return std::nullopt;
  for (std::size_t place = 1; place < query.inputs.size(); ++place) {
    if (query.flow(place).kind == Kind::kSplit && !(query.flow(place) == flow)) return std::nullopt;
  }
  return flow;
}

RuleResult trailing_rule(const FlowQuery& query) {
  const RuleResult result = elementwise_rule(query);
  if (!result) return std::nullopt;
  std::size_t own = 2;  // attention: positions and features; triangles: rows and columns
  if (const Argument* shape = find_argument(query.op, "normalized_shape")) {
    const auto* sizes = std::get_if<std::vector<BatchExpr>>(&shape->value);
    if (sizes == nullptr) return std::nullopt;
    own = sizes->size();
  }
  const auto rank = query.output_shape().size();
  if (static_cast<std::size_t>(result->dim) + own >= rank + (own == 0 ? 1 : 0)) return std::nullopt;
  return result;
}

RuleResult embedding_rule(const FlowQuery& query) {
  if (query.inputs.size() < 2 || query.flow(0).kind != Kind::kIndependent) return std::nullopt;
  return query.flow(1);
}

RuleResult gather_rule(const FlowQuery& query) {
  const std::int64_t along = wrapped(integer_argument(query.op, "dim", 0), query.output_shape().size());
  const auto first = query.first_with_rows();
  const BatchFlow flow = query.flow(*first);
  const bool table = functional_name(query.op.target) == "gather" && query.flow(0).kind == Kind::kIndependent;
  if (flow.dim == along && !table) return std::nullopt;
  for (std::size_t place = table ? 1 : 0; place < query.inputs.size(); ++place) {
    const bool scalar = query.shape(place).empty();
    if (!scalar && !(query.flow(place) == flow)) return std::nullopt;
  }
  return flow;
}

namespace {

RuleResult reduced_loss(const FlowQuery& query, const RuleResult& rows, bool mean_is_uniform) {
  if (!rows) return std::nullopt;
  switch (integer_argument(query.op, "reduction", 1)) {  // at::Reduction
    case 0:
      return rows;
    case 1:
      return mean_is_uniform ? RuleResult(BatchFlow{Kind::kPartialMean}) : std::nullopt;
    case 2:
      return BatchFlow{Kind::kPartialSum};
    default:
      return std::nullopt;
  }
}

}  // namespace

RuleResult row_loss_rule(const FlowQuery& query) {
  const std::vector<std::size_t> target = argument_places(query.op, "target");
  if (target.size() != 1 || query.flow(0).kind != Kind::kSplit || query.flow(0).dim != 0) return std::nullopt;
  if (!(query.flow(target[0]) == query.flow(0))) return std::nullopt;
  for (std::size_t place = 0; place < query.inputs.size(); ++place) {
    if (place != 0 && place != target[0] && query.flow(place).kind != Kind::kIndependent) return std::nullopt;
  }
  // A mean over class indices was rewritten (graph/loss_rewrite.h); over class probabilities every row counts alike.
  const bool probabilities = is_floating(query.graph.tensors[query.op.inputs[target[0]]].dtype);
  const bool margin = functional_name(query.op.target).find("margin") != std::string_view::npos;
  return reduced_loss(query, query.flow(0), probabilities || margin);
}

RuleResult element_loss_rule(const FlowQuery& query) {
  RuleResult rows;  // aligned at the ends of the longest input, which is the shape before the reduction
  std::size_t rank = 0;
  for (std::size_t place = 0; place < query.inputs.size(); ++place) rank = std::max(rank, query.shape(place).size());
  for (std::size_t place = 0; place < query.inputs.size(); ++place) {
    if (query.flow(place).kind != Kind::kSplit) continue;
    const auto shift = static_cast<std::int32_t>(rank - query.shape(place).size());
    const BatchFlow flow = BatchFlow::split(query.flow(place).dim + shift, query.flow(place).outer);
    if (rows && !(*rows == flow)) return std::nullopt;
    rows = flow;
  }
  return reduced_loss(query, rows, true);
}

// input [T, N, F] or [N, T, F]; states [layers, N, H]; outputs likewise.
RuleResult recurrent_rule(const FlowQuery& query) {
  const std::int32_t dim = flag_argument(query.op, "batch_first", false) ? 0 : 1;
  const BatchFlow& input = query.flow(0);
  if (query.shape(0).size() != 3 || !(input == BatchFlow::split(dim, input.outer))) return std::nullopt;
  for (std::size_t place : argument_places(query.op, "hx")) {
    const BatchFlow& state = query.flow(place);
    if (state.kind == Kind::kSplit && !(state == BatchFlow::split(1, input.outer))) return std::nullopt;
  }
  const bool sequence = !query.op.outputs.empty() && query.output == query.op.outputs[0];
  return BatchFlow::split(sequence ? dim : 1, input.outer);
}

RuleResult factory_rule(const FlowQuery& query) {
  for (const Argument& argument : query.op.arguments) {
    const auto* value = std::get_if<BatchExpr>(&argument.value);
    if (value != nullptr && value->depends_on_batch()) return std::nullopt;  // a fill with the batch size
  }
  if (!mentions_batch(query.output_shape())) return BatchFlow{};
  const auto dim = batch_dimension(query.output_shape());
  if (!dim) return std::nullopt;
  const auto like = query.first_with_rows();
  const bool same_place = like && query.flow(*like).dim == *dim && query.shape(*like) == query.output_shape();
  return BatchFlow::split(*dim, same_place ? query.flow(*like).outer : 1);
}

// Of an op nobody described: samples in dimension 0 of all that carries the batch, in and out, is taken to mean that
// samples stay apart, as PyTorch's layers have it.
RuleResult unknown_rule(const FlowQuery& query) {
  const auto leads = [](const Shape& shape) { return batch_dimension(shape) == 0 && shape[0] == BatchExpr::batch(); };
  for (std::size_t place = 0; place < query.inputs.size(); ++place) {
    if (query.flow(place).kind == Kind::kSplit && !leads(query.shape(place))) return std::nullopt;
  }
  if (!leads(query.output_shape())) return std::nullopt;
  return BatchFlow::split(0, 1);
}

}  // namespace motley
