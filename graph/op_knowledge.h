#pragma once

// What motley knows of ATen ops by their names: how they meet the batch, what they compute, what autograd keeps of
// them. Of an op that is not in the table it assumes the worst: that autograd saves all inputs and outputs, that one
// FLOP per element is all its work, and that it mixes samples unless the shapes say otherwise. Pure functions;
// thread-safe.

#include <string_view>
#include <vector>

#include "base/units.h"
#include "graph/graph.h"

namespace motley {

// How an op treats the dimension that holds the batch (graph/batch_analysis.h).
enum class BatchRule : std::uint8_t {
  kUnknown,
  kElementwise,  // broadcasts its inputs
  kIdentity,     // the same values, maybe in another dtype or place
  kReshape,      // the same values in the same order under another shape
  kPermute,      // permute, transpose, movedim, t
  kExpand,
  kRepeat,
  kRepeatInterleave,
  kSelect,    // select, unbind: one dimension goes
  kSlice,     // slice, narrow, split, chunk: blocks of one dimension
  kAlongDim,  // softmax, cumsum, flip: works along argument "dim", keeps the rank
  kSort,      // ... and tells the order it found
  kReduce,    // over "dim", or over everything
  kCat,
  kStack,
  kContract,  // matrix products: inputs that are summed over shared dimensions
  kLeading,   // convolution, pooling, batch norm, one_hot: dimension 0 holds samples and passes through
  kTrailing,  // layer norm, triangles, attention: the last dimensions belong to one sample
  kEmbedding,
  kIndex,
  kIndexPut,
  kIndexAdd,
  kSelectScatter,  // a value for one place of a dimension
  kGather,         // gather, scatter: along "dim", with an index of the input's rank
  kPad,
  kRowLoss,  // cross_entropy, nll_loss: one target per row
  kElementLoss,
  kRecurrent,
  kFactory,  // the values do not depend on the inputs
  kArange,
  kBags,         // embedding_bag: sums of a table's rows
  kGroupedRows,  // _grouped_mm: each row meets one expert's matrix
  kMixes,        // histograms, permutations: no cut can be told
};

// How the outputs follow from values that are only partly there (summed over some of the batch).
enum class Linearity : std::uint8_t {
  kNone,
  kLinear,    // f(x + y) = f(x) + f(y) over all inputs together: add, neg, sum, views
  kMulti,     // linear in each input when the others are fixed: mul, matrix products
  kQuotient,  // linear in the first input
};

// One tensor that autograd keeps for the backward: an input by the schema's name or an output by number.
struct Saved {
  std::string_view name;       // argument name; "result", "result1" for outputs
  std::string_view for_input;  // kept only when this argument needs a gradient; empty: always
};

// What autograd keeps that is neither input nor output.
enum class ExtraSaved : std::uint8_t {
  kNone,
  kMask,               // one byte per output element (dropout)
  kIndices,            // eight bytes per output element (max pooling)
  kInputCopy,          // as many bytes as the first input (log-probabilities inside cross_entropy)
  kRowStatistics,      // mean and reciprocal deviation of each normalized row (layer norm), four bytes each
  kChannelStatistics,  // ... of each channel (batch norm)
  kGroupStatistics,    // ... of each sample's group of channels (group norm, instance norm)
  kLogSumExp,          // four bytes per query row and head (attention)
  kGates,              // the gates of every step (recurrent nets)
};

enum class WorkRule : std::uint8_t {
  kNothing,        // views, factories
  kElements,       // `forward_flops` per output element
  kInputElements,  // ... per element of the first input (reductions)
  kContraction,    // 2 per multiply-add of a matrix product
  kConvolution,
  kTransposedConvolution,
  kAttention,
  kWindow,  // pooling: one per element of each window
  kRecurrent,
};

struct OpFacts {
  BatchRule batch = BatchRule::kUnknown;
  Linearity linearity = Linearity::kNone;
  WorkRule work = WorkRule::kElements;
  double forward_flops = 1;   // per element
  double backward_flops = 1;  // per element and gradient
  std::vector<Saved> saves;
  ExtraSaved extra = ExtraSaved::kNone;
  bool differentiable = true;     // false: autograd has no formula, or the result is constant (comparisons, argmax)
  bool gradient_is_view = false;  // where the op is a view, so is its backward (transpose; not expand or slice)
  bool known = false;
};

// By "aten::add.Tensor", "aten::add" or "add"; in-place names ("relu_") mean their functional twins.
const OpFacts& facts_of(std::string_view target);

// "add" of "aten::add.Tensor", "mul" of "aten::mul_.Tensor".
std::string_view functional_name(std::string_view target);

const Argument* find_argument(const Op& op, std::string_view name);
// The place in Op::inputs that the argument names; kNone when it is absent or not a tensor.
std::int32_t input_place(const Op& op, std::string_view argument);
// The argument's number, when it is there and constant; `otherwise` when it is absent or None.
std::int64_t integer_argument(const Op& op, std::string_view name, std::int64_t otherwise);
bool flag_argument(const Op& op, std::string_view name, bool otherwise);

// Floating-point operations of one op of any kind at that batch size; a multiply-add counts two. Matrix products by
// 2mnk; attention by its two products and, backward, five (Dao et al., FlashAttention, 2022, section 3.1, recomputing
// the scores); a gradient of a product with respect to one operand costs what the product does.
Flops flops(const Graph& graph, const Op& op, std::int64_t batch);

// Bytes that the op reads and writes at least; 0 for views.
Bytes bytes_moved(const Graph& graph, const Op& op, std::int64_t batch);

// By tensor, of views that whose storage they share: whether a backward op takes it, beside gradients.
std::vector<char> taken_by_backward(const Graph& graph);

// What autograd keeps of a forward op whose inputs at `gradient_places` need gradients: PyTorch's derivative formulas
// (tools/autograd/derivatives.yaml), tensors once each.
struct SavedForBackward {
  std::vector<TensorId> tensors;  // inputs and outputs of the op
  Shape extra_shape;              // elements kept beyond those
  Bytes extra_item{0};            // bytes of each
  Bytes extra(std::int64_t batch) const { return Bytes(element_count(extra_shape).at(batch) * extra_item.value); }
};
SavedForBackward saved_for_backward(const Graph& graph, const Op& op, const std::vector<std::int32_t>& gradient_places);

}  // namespace motley
