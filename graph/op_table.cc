#include <string>
#include <unordered_map>

#include "graph/op_knowledge.h"

namespace motley {
namespace {

using B = BatchRule;
using L = Linearity;
using W = WorkRule;
using X = ExtraSaved;

// One row for all ops that share its facts. `names` and `saves` are separated by spaces; "a<b" in `saves` keeps a only
// when b needs a gradient.
struct Row {
  std::string_view names;
  B batch;
  L linearity;
  W work;
  double forward_flops;
  double backward_flops;
  std::string_view saves;
  X extra = X::kNone;
};

constexpr Row kViewRows[] = {
    {"view reshape flatten unflatten unsqueeze squeeze view_as reshape_as _unsafe_view ravel", B::kReshape, L::kLinear,
     W::kNothing, 0, 0, ""},
    {"permute transpose t mT swapaxes swapdims movedim moveaxis numpy_T adjoint", B::kPermute, L::kLinear, W::kNothing,
     0, 0, ""},
    {"alias lift_fresh lift_fresh_copy lift", B::kIdentity, L::kLinear, W::kNothing, 0, 0, ""},
    {"to _to_copy contiguous clone type_as float half bfloat16 double", B::kIdentity, L::kLinear, W::kElements, 0, 0,
     ""},
    {"expand expand_as broadcast_to", B::kExpand, L::kLinear, W::kNothing, 0, 1, ""},
    {"select unbind", B::kSelect, L::kLinear, W::kNothing, 0, 0, ""},
    {"slice narrow split split_with_sizes chunk tensor_split unsafe_split unsafe_chunk", B::kSlice, L::kLinear,
     W::kNothing, 0, 0, ""},
    {"repeat tile", B::kRepeat, L::kLinear, W::kElements, 0, 1, ""},
    {"repeat_interleave", B::kRepeatInterleave, L::kLinear, W::kElements, 0, 1, ""},
    {"cat concat concatenate", B::kCat, L::kLinear, W::kElements, 0, 0, ""},
    {"stack", B::kStack, L::kLinear, W::kElements, 0, 0, ""},
    {"pad constant_pad_nd", B::kPad, L::kLinear, W::kElements, 0, 0, ""},
    {"reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d",
     B::kPad, L::kLinear, W::kElements, 0, 1, "self"},
    {"flip roll", B::kAlongDim, L::kLinear, W::kElements, 0, 0, ""},
    {"pixel_shuffle pixel_unshuffle channel_shuffle", B::kLeading, L::kLinear, W::kElements, 0, 0, ""},
    {"slice_scatter", B::kAlongDim, L::kLinear, W::kElements, 0, 0, ""},
    {"select_scatter", B::kSelectScatter, L::kLinear, W::kElements, 0, 0, ""},
    {"tril triu", B::kTrailing, L::kLinear, W::kElements, 0, 0, ""},
};

constexpr Row kElementwiseRows[] = {
    {"add sub rsub", B::kElementwise, L::kLinear, W::kElements, 1, 1, ""},
    {"neg positive", B::kElementwise, L::kLinear, W::kElements, 1, 1, ""},
    {"mul multiply", B::kElementwise, L::kMulti, W::kElements, 1, 1, "self<other other<self"},
    {"div divide true_divide", B::kElementwise, L::kQuotient, W::kElements, 1, 2, "other self<other"},
    {"addcmul", B::kElementwise, L::kNone, W::kElements, 3, 1, "tensor1<tensor2 tensor2<tensor1"},
    {"addcdiv", B::kElementwise, L::kNone, W::kElements, 3, 2, "tensor1<tensor2 tensor2"},
    {"lerp", B::kElementwise, L::kNone, W::kElements, 3, 2, "weight self<weight end<weight"},
    {"pow", B::kElementwise, L::kNone, W::kElements, 4, 5, "self exponent result<exponent"},
    {"exp exp2 sqrt rsqrt tanh sigmoid reciprocal expm1", B::kElementwise, L::kNone, W::kElements, 4, 3, "result"},
    {"relu", B::kElementwise, L::kNone, W::kElements, 1, 1, "result"},
    {"log log2 log10 log1p sin cos tan asin acos atan sinh cosh erf erfc abs sgn square logit", B::kElementwise,
     L::kNone, W::kElements, 4, 4, "self"},
    {"atan2 hypot fmod remainder xlogy logaddexp logaddexp2", B::kElementwise, L::kNone, W::kElements, 6, 6,
     "self other"},
    {"gelu silu mish softplus elu selu celu", B::kElementwise, L::kNone, W::kElements, 8, 10, "self"},
    {"leaky_relu hardtanh relu6 hardswish hardsigmoid log_sigmoid logsigmoid softshrink hardshrink threshold clamp "
     "clip "
     "clamp_min clamp_max rrelu softsign tanhshrink",
     B::kElementwise, L::kNone, W::kElements, 2, 2, "self"},
    {"prelu", B::kElementwise, L::kNone, W::kElements, 2, 2, "self weight"},
    {"maximum minimum fmax fmin max.other min.other", B::kElementwise, L::kNone, W::kElements, 1, 1, "self other"},
    {"where", B::kElementwise, L::kNone, W::kElements, 1, 1, "condition"},
    {"masked_fill", B::kElementwise, L::kNone, W::kElements, 1, 1, "mask"},
    {"nan_to_num", B::kElementwise, L::kNone, W::kElements, 1, 1, "self"},
    {"dropout native_dropout feature_dropout alpha_dropout", B::kElementwise, L::kNone, W::kElements, 2, 1, "",
     X::kMask},
};

// Elementwise, of rank-preserving shape, but without a gradient.
constexpr std::string_view kConstantElementwise =
    "eq ne lt le gt ge equal logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not "
    "bitwise_xor "
    "__and__ __or__ __xor__ __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift isnan isinf isfinite isneginf "
    "isposinf sign floor ceil round trunc frac floor_divide signbit bernoulli heaviside isin bucketize long int bool "
    "rand_like randn_like randint_like";

constexpr Row kReductionRows[] = {
    {"sum", B::kReduce, L::kLinear, W::kInputElements, 1, 0, ""},
    {"mean", B::kReduce, L::kLinear, W::kInputElements, 1, 1, ""},
    {"amax amin max min", B::kReduce, L::kNone, W::kInputElements, 1, 1, "self result"},
    {"max.dim min.dim median mode kthvalue nanmedian", B::kReduce, L::kNone, W::kInputElements, 1, 1, "result1"},
    {"var std var_mean std_mean", B::kReduce, L::kNone, W::kInputElements, 4, 3, "self result"},
    {"norm linalg_vector_norm logsumexp prod nansum", B::kReduce, L::kNone, W::kInputElements, 3, 3, "self result"},
    {"softmax _softmax log_softmax _log_softmax", B::kAlongDim, L::kNone, W::kElements, 5, 4, "result"},
    {"softmin", B::kAlongDim, L::kNone, W::kElements, 6, 5, "result"},
    {"cumsum", B::kAlongDim, L::kLinear, W::kElements, 1, 1, ""},
    {"cumprod logcumsumexp", B::kAlongDim, L::kNone, W::kElements, 4, 6, "self result"},
    {"cummax cummin", B::kAlongDim, L::kNone, W::kElements, 1, 1, "result1"},
    {"diff", B::kAlongDim, L::kLinear, W::kElements, 1, 1, ""},
    {"glu", B::kAlongDim, L::kNone, W::kElements, 6, 8, "self"},
    {"topk", B::kAlongDim, L::kNone, W::kInputElements, 4, 0, "result1"},
    {"sort argsort", B::kSort, L::kNone, W::kElements, 20, 0, "result1"},
};

constexpr Row kProductRows[] = {
    {"mm", B::kContract, L::kMulti, W::kContraction, 0, 0, "self<mat2 mat2<self"},
    {"bmm", B::kContract, L::kMulti, W::kContraction, 0, 0, "self<mat2 mat2<self"},
    {"matmul mv dot vdot inner", B::kContract, L::kMulti, W::kContraction, 0, 0,
     "self<other other<self self<vec vec<self self<tensor tensor<self"},
    {"linear", B::kContract, L::kMulti, W::kContraction, 0, 0, "input<weight weight<input"},
    {"addmm", B::kContract, L::kMulti, W::kContraction, 0, 0, "mat1<mat2 mat2<mat1"},
    {"baddbmm addbmm", B::kContract, L::kMulti, W::kContraction, 0, 0, "batch1<batch2 batch2<batch1"},
    {"einsum", B::kContract, L::kMulti, W::kContraction, 0, 0, "tensors"},
    {"_grouped_mm", B::kGroupedRows, L::kMulti, W::kContraction, 0, 0, "self mat2 offs"},
    {"scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu", B::kTrailing, L::kNone, W::kAttention,
     0, 0, "query key value attn_mask result", X::kLogSumExp},
    {"conv1d conv2d conv3d convolution _convolution", B::kLeading, L::kMulti, W::kConvolution, 0, 0,
     "input<weight weight<input"},
    {"conv_transpose1d conv_transpose2d conv_transpose3d", B::kLeading, L::kMulti, W::kTransposedConvolution, 0, 0,
     "input<weight weight<input"},
    {"lstm gru rnn_tanh rnn_relu", B::kRecurrent, L::kNone, W::kRecurrent, 0, 0, "input hx params result", X::kGates},
};

constexpr Row kNormRows[] = {
    {"layer_norm native_layer_norm rms_norm _fused_rms_norm", B::kTrailing, L::kNone, W::kElements, 8, 12,
     "input weight", X::kRowStatistics},
    {"batch_norm native_batch_norm _native_batch_norm_legit _batch_norm_impl_index", B::kLeading, L::kNone,
     W::kElements, 8, 12, "input weight", X::kChannelStatistics},
    {"group_norm native_group_norm instance_norm", B::kLeading, L::kNone, W::kElements, 8, 12, "input weight",
     X::kGroupStatistics},
    {"local_response_norm", B::kLeading, L::kNone, W::kElements, 8, 12, "input result"},
    {"max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
     "max_pool2d_with_indices max_pool3d_with_indices",
     B::kLeading, L::kNone, W::kWindow, 1, 1, "self input", X::kIndices},
    {"avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
     "_adaptive_avg_pool2d",
     B::kLeading, L::kLinear, W::kWindow, 1, 1, "self input"},
    {"upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
     "upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa",
     B::kLeading, L::kLinear, W::kElements, 8, 8, ""},
    {"grid_sampler grid_sampler_2d", B::kLeading, L::kNone, W::kElements, 16, 24, "input grid"},
    {"im2col col2im unfold_backward", B::kLeading, L::kLinear, W::kElements, 1, 1, ""},
};

constexpr Row kIndexRows[] = {
    {"embedding", B::kEmbedding, L::kNone, W::kNothing, 0, 1, "indices"},
    {"embedding_bag", B::kBags, L::kNone, W::kElements, 1, 1, "indices offsets per_sample_weights"},
    {"index", B::kIndex, L::kNone, W::kNothing, 0, 1, "indices"},
    {"index_select", B::kIndex, L::kNone, W::kNothing, 0, 1, "index"},
    {"take", B::kEmbedding, L::kNone, W::kNothing, 0, 1, "index"},
    {"gather take_along_dim", B::kGather, L::kNone, W::kNothing, 0, 1, "index indices"},
    {"scatter scatter_add scatter_reduce", B::kGather, L::kNone, W::kElements, 1, 1, "index"},
    {"index_put _index_put_impl", B::kIndexPut, L::kNone, W::kElements, 1, 1, "indices"},
    {"index_add", B::kIndexAdd, L::kNone, W::kElements, 1, 1, "index"},
};

constexpr Row kLossRows[] = {
    {"cross_entropy_loss", B::kRowLoss, L::kNone, W::kInputElements, 6, 2, "target weight", X::kInputCopy},
    {"nll_loss nll_loss_nd nll_loss2d nll_loss_forward", B::kRowLoss, L::kNone, W::kInputElements, 1, 1,
     "self target weight"},
    {"multi_margin_loss multilabel_margin_loss", B::kRowLoss, L::kNone, W::kInputElements, 3, 3, "self target weight"},
    {"mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss poisson_nll_loss hinge_embedding_loss",
     B::kElementLoss, L::kNone, W::kInputElements, 3, 3, "self target input"},
    {"binary_cross_entropy", B::kElementLoss, L::kNone, W::kInputElements, 10, 6, "self target weight"},
    {"binary_cross_entropy_with_logits", B::kElementLoss, L::kNone, W::kInputElements, 10, 6,
     "self target weight pos_weight"},
};

// Values that no gradient reaches, by rule.
struct ConstantRow {
  std::string_view names;
  B batch;
  W work;
};
constexpr ConstantRow kConstantRows[] = {
    {kConstantElementwise, B::kElementwise, W::kElements},
    {"argmax argmin any all count_nonzero", B::kReduce, W::kInputElements},
    {"one_hot", B::kLeading, W::kElements},
    {"detach", B::kIdentity, W::kNothing},
    {"zeros ones full empty zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty rand randn "
     "randint normal scalar_tensor empty_strided empty_permuted new_empty_strided",
     B::kFactory, W::kElements},
    {"arange", B::kArange, W::kElements},
    {"histc bincount nonzero unique randperm eye linspace logspace searchsorted tril_indices triu_indices", B::kMixes,
     W::kInputElements},
};

constexpr std::string_view kViewsWithViewGradient =
    "view reshape flatten unflatten unsqueeze squeeze view_as reshape_as _unsafe_view ravel permute transpose t mT "
    "swapaxes "
    "swapdims movedim moveaxis numpy_T adjoint alias contiguous to";

template <class Function>
void for_each_word(std::string_view words, Function&& function) {
  while (!words.empty()) {
    const std::size_t end = words.find(' ');
    function(words.substr(0, end));
    if (end == std::string_view::npos) break;
    words.remove_prefix(end + 1);
  }
}

using Table = std::unordered_map<std::string_view, OpFacts>;

void add_rows(Table& table, const Row* begin, const Row* end) {
  for (const Row* row = begin; row != end; ++row) {
    OpFacts facts;
    facts.batch = row->batch;
    facts.linearity = row->linearity;
    facts.work = row->work;
    facts.forward_flops = row->forward_flops;
    facts.backward_flops = row->backward_flops;
    facts.extra = row->extra;
    facts.known = true;
    for_each_word(row->saves, [&](std::string_view word) {
      const std::size_t mark = word.find('<');
      facts.saves.push_back(mark == std::string_view::npos ? Saved{word, {}}
                                                           : Saved{word.substr(0, mark), word.substr(mark + 1)});
    });
    for_each_word(row->names, [&](std::string_view name) { table.emplace(name, facts); });
  }
}

Table make_table() {
  Table table;
  const auto add = [&](const auto& rows) { add_rows(table, std::begin(rows), std::end(rows)); };
  add(kViewRows);
  add(kElementwiseRows);
  add(kReductionRows);
  add(kProductRows);
  add(kNormRows);
  add(kIndexRows);
  add(kLossRows);
  for (const ConstantRow& row : kConstantRows) {
    OpFacts facts;
    facts.batch = row.batch;
    facts.work = row.work;
    facts.differentiable = false;
    facts.known = true;
    for_each_word(row.names, [&](std::string_view name) { table.emplace(name, facts); });
  }
  for_each_word(kViewsWithViewGradient, [&](std::string_view name) { table.at(name).gradient_is_view = true; });
  return table;
}

std::string_view without_namespace(std::string_view target) {
  const std::size_t colons = target.find("::");
  return colons == std::string_view::npos ? target : target.substr(colons + 2);
}

}  // namespace

std::string_view functional_name(std::string_view target) {
  std::string_view name = without_namespace(target);
  name = name.substr(0, name.find('.'));
  const bool in_place = name.size() > 2 && name.ends_with('_') && !name.ends_with("__");
  return in_place ? name.substr(0, name.size() - 1) : name;
}

const OpFacts& facts_of(std::string_view target) {
  static const Table table = make_table();
  static const OpFacts unknown;
  if (auto exact = table.find(without_namespace(target)); exact != table.end()) return exact->second;
  const auto found = table.find(functional_name(target));
  return found == table.end() ? unknown : found->second;
}

}  // namespace motley
