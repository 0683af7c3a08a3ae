#include "graph/op_traits.h"

#include <set>

namespace motley {
namespace {

using Names = std::set<std::string_view>;

const Names kViews = {"_reshape_alias",   "_unsafe_view", "alias",      "as_strided", "chunk",     "detach",
                      "diagonal",         "expand",       "lift_fresh", "mT",         "moveaxis",  "movedim",
                      "narrow",           "numpy_T",      "permute",    "select",     "slice",     "split",
                      "split_with_sizes", "squeeze",      "swapaxes",   "swapdims",   "t",         "tensor_split",
                      "transpose",        "unbind",       "unflatten",  "unfold",     "unsqueeze", "view"};

const Names kCuts = {"bernoulli",  "detach",       "empty_like", "full_like",     "heaviside",        "histc",
                     "new_empty",  "new_full",     "new_ones",   "new_zeros",     "ones_like",        "rand_like",
                     "randn_like", "randint_like", "zeros_like", "empty_strided", "new_empty_strided"};

const Names kDropouts = {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "native_dropout"};

const Names kRandom = {"bernoulli", "cauchy",     "exponential", "geometric", "log_normal", "multinomial",
                       "normal",    "poisson",    "rand",        "rand_like", "randint",    "randint_like",
                       "randn",     "randn_like", "randperm",    "random",    "uniform",    "normal_functional"};

const Names kAttention = {"scaled_dot_product_attention",
                          "_scaled_dot_product_efficient_attention",
                          "_scaled_dot_product_flash_attention",
                          "_scaled_dot_product_flash_attention_for_cpu",
                          "_scaled_dot_product_attention_math",
                          "_scaled_dot_product_cudnn_attention",
                          "_scaled_dot_product_fused_attention_overrideable"};

const Names kDense = {"_grouped_mm", "addmm",     "baddbmm",    "bmm",    "cat",
                      "contiguous",  "embedding", "layer_norm", "linear", "native_layer_norm",
                      "matmul",      "mm",        "stack",      "gather", "index_select"};

template <class Value>
Value value_or(const std::vector<Argument>& arguments, std::string_view name, Value otherwise) {
  const ArgumentValue* value = find_argument(arguments, name);
  const Value* held = value == nullptr ? nullptr : std::get_if<Value>(value);
  return held == nullptr ? otherwise : *held;
}

double number_or(const std::vector<Argument>& arguments, std::string_view name, double otherwise) {
  const auto integer = value_or<BatchExpr>(arguments, name, BatchExpr(-1));
  return integer == BatchExpr(-1) ? value_or<double>(arguments, name, otherwise) : static_cast<double>(integer.at(1));
}

}  // namespace

std::string_view base_name(std::string_view target) {
  const std::size_t colons = target.find("::");
  const std::string_view name = colons == std::string_view::npos ? target : target.substr(colons + 2);
  return name.substr(0, name.find('.'));
}

std::string_view overload_name(std::string_view target) {
  const std::size_t dot = target.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : target.substr(dot + 1);
}

bool is_in_place(std::string_view target) {
  const std::string_view base = base_name(target);
  if (!base.ends_with("_")) return false;
  // __and__ is functional, __iand__ is not.
  return !base.ends_with("__") || base.starts_with("__i");
}

std::string functional_twin(std::string_view target) {
  const std::string_view base = base_name(target);
  const std::size_t at = static_cast<std::size_t>(base.data() - target.data());
  const std::string head(target.substr(0, at));
  const std::string tail(target.substr(at + base.size()));
  if (base.starts_with("__i")) return head + "__" + std::string(base.substr(3)) + tail;
  if (base == "normal_") return head + "normal_functional" + tail;
  if (base == "bernoulli_") return head + (tail == ".float" ? "bernoulli.p" : "bernoulli.default");
  return head + std::string(base.substr(0, base.size() - 1)) + tail;
}

bool is_view(std::string_view target) { return target.starts_with("aten::") && kViews.contains(base_name(target)); }

bool is_reshape(std::string_view target) {
  const std::string_view base = base_name(target);
  return target.starts_with("aten::") && (base == "reshape" || base == "flatten" || base == "ravel");
}

bool cuts_gradient(std::string_view target) { return kCuts.contains(base_name(target)); }

bool is_random(const Op& op) {
  const std::string_view base = base_name(op.target);
  if (kRandom.contains(base)) return true;
  if (kAttention.contains(base)) return number_or(op.arguments, "dropout_p", 0.0) > 0;
  if (base == "rrelu" || base == "rrelu_with_noise") return value_or(op.arguments, "training", false);
  if (!kDropouts.contains(base)) return false;
  return number_or(op.arguments, "p", 0.5) > 0 && value_or(op.arguments, "train", true);
}

bool has_device_strides(std::string_view target) { return kAttention.contains(base_name(target)); }
bool has_dense_result(std::string_view target) { return kDense.contains(base_name(target)); }

const ArgumentValue* find_argument(const std::vector<Argument>& arguments, std::string_view name) {
  for (const Argument& argument : arguments) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

}  // namespace motley
