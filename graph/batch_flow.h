#pragma once

// Inside graph/: what the batch analysis knows of a tensor while it walks the graph. Finer than BatchLayout, so that
// rows that were sorted and put back, and indices of samples, are understood.

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/op_knowledge.h"

namespace motley {

using OrderId = std::int32_t;
inline constexpr OrderId kSampleOrder = -2;  // the batch's own order

struct BatchFlow {
  enum class Kind : std::uint8_t {
    kIndependent,
    kSplit,
    kReordered,  // rows of this replica's samples along `dim`, in the order that some sort found
    kPartialSum,
    kPartialMean,
    kMixed,
  };
  Kind kind = Kind::kIndependent;
  std::int32_t dim = 0;
  std::int64_t outer = 1;
  OrderId order = kSampleOrder;  // kReordered
  bool operator==(const BatchFlow&) const = default;

  static BatchFlow split(std::int32_t dim, std::int64_t outer) { return {Kind::kSplit, dim, outer, kSampleOrder}; }
  static BatchFlow mixed() { return {Kind::kMixed, 0, 1, kSampleOrder}; }
  bool is_partial() const { return kind == Kind::kPartialSum || kind == Kind::kPartialMean; }
  bool has_rows() const { return kind == Kind::kSplit || kind == Kind::kReordered; }
};

// Integers that are places of rows on the replica that computes them: what arange(B) or a sort gives. A replica counts
// its own rows from 0, so such values are right as indices there and meaningless anywhere else.
struct RowIndex {
  OrderId points_into = kSampleOrder;  // the order in which the rows that they point at stand
  BatchExpr range;                     // number of those rows
  bool counts = false;                 // 0, 1, 2, ...
  bool permutes = false;               // each row once
};

struct TensorFlow {
  BatchFlow flow;
  std::optional<RowIndex> index;
  bool uniform = false;  // made by a fill: no value depends on its place
};

// The op under analysis with the flows of its inputs. `output` is the output whose flow is asked for.
struct FlowQuery {
  const Graph& graph;
  const Op& op;
  const OpFacts& facts;
  std::vector<TensorFlow> inputs;  // by place
  TensorId output = kNone;

  const Shape& shape(std::size_t place) const { return graph.tensors[op.inputs[place]].shape; }
  const Shape& output_shape() const { return graph.tensors[output].shape; }
  const BatchFlow& flow(std::size_t place) const { return inputs[place].flow; }
  std::optional<std::size_t> first_with_rows() const;
};

// Each rule answers for inputs that are kIndependent or kSplit, at least one of them kSplit (but for factories), how
// the output meets the batch; nothing when no cut can be told.
using RuleResult = std::optional<BatchFlow>;
RuleResult elementwise_rule(const FlowQuery& query);
RuleResult reshape_rule(const FlowQuery& query);
RuleResult permute_rule(const FlowQuery& query);
RuleResult expand_rule(const FlowQuery& query);
RuleResult repeat_rule(const FlowQuery& query);
RuleResult repeat_interleave_rule(const FlowQuery& query);
RuleResult select_rule(const FlowQuery& query);
RuleResult slice_rule(const FlowQuery& query);
RuleResult select_scatter_rule(const FlowQuery& query);
RuleResult along_dim_rule(const FlowQuery& query);
RuleResult reduce_rule(const FlowQuery& query);
RuleResult cat_rule(const FlowQuery& query);
RuleResult stack_rule(const FlowQuery& query);
RuleResult pad_rule(const FlowQuery& query);
RuleResult contract_rule(const FlowQuery& query);
RuleResult leading_rule(const FlowQuery& query);
RuleResult trailing_rule(const FlowQuery& query);
RuleResult embedding_rule(const FlowQuery& query);
RuleResult gather_rule(const FlowQuery& query);
RuleResult row_loss_rule(const FlowQuery& query);
RuleResult element_loss_rule(const FlowQuery& query);
RuleResult recurrent_rule(const FlowQuery& query);
RuleResult factory_rule(const FlowQuery& query);
RuleResult unknown_rule(const FlowQuery& query);

// Rules that know rows and their indices (batch_index.cc); inputs may be kReordered and kMixed.
std::optional<TensorFlow> index_rule(const FlowQuery& query);
std::optional<TensorFlow> index_put_rule(const FlowQuery& query);
std::optional<TensorFlow> index_add_rule(const FlowQuery& query);
std::optional<TensorFlow> grouped_rows_rule(const FlowQuery& query);
std::optional<TensorFlow> bags_rule(const FlowQuery& query);
std::optional<TensorFlow> sort_rule(const FlowQuery& query, OrderId fresh_order);

// The one dimension whose size is k*B; nothing when there is none, several, or another form.
std::optional<std::int32_t> batch_dimension(const Shape& shape);
bool mentions_batch(const Shape& shape);
// Dimension counted from the end when negative.
std::int64_t wrapped(std::int64_t dim, std::size_t rank);
std::optional<std::vector<std::int64_t>> integers_argument(const Op& op, std::string_view name);
std::vector<std::size_t> argument_places(const Op& op, std::string_view name);

}  // namespace motley
