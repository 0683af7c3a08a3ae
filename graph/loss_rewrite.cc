#include "graph/loss_rewrite.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graph/op_knowledge.h"

namespace motley {
namespace {

constexpr std::int64_t kMean = 1;  // at::Reduction
constexpr std::int64_t kSum = 2;

bool is_mean_over_targets(const Graph& graph, const Op& op) {
  const std::string_view name = functional_name(op.target);
  if (name != "cross_entropy_loss" && name != "nll_loss" && name != "nll_loss_nd" && name != "nll_loss2d") return false;
  const std::int32_t target = input_place(op, "target");
  return target != kNone && integer_argument(op, "reduction", kMean) == kMean &&
         !is_floating(graph.tensors[op.inputs[target]].dtype);
}

void set_reduction(Op& op, std::int64_t reduction) {
  constexpr std::array<std::string_view, 3> before = {"self", "target", "weight"};
  auto place = op.arguments.begin();
  while (place != op.arguments.end() && std::find(before.begin(), before.end(), place->name) != before.end()) ++place;
  if (place != op.arguments.end() && place->name == "reduction") {
    place->value = BatchExpr(reduction);
  } else {
    op.arguments.insert(place, Argument{"reduction", BatchExpr(reduction)});
  }
}

class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}

  void run() {
    std::vector<Op> old = std::move(graph_.ops);
    graph_.ops.clear();
    for (Op& op : old) {
      if (is_mean_over_targets(graph_, op)) {
        rewrite(std::move(op));
      } else {
        push(std::move(op));
      }
    }
    graph_.finish();
  }

 private:
  void push(Op op) {
    for (TensorId output : op.outputs) {
      if (output != kNone) graph_.tensors[output].producer = static_cast<OpId>(graph_.ops.size());
    }
    graph_.ops.push_back(std::move(op));
  }

  // Adds an op of one output; its tensor arguments are `inputs` in order.
  TensorId add(const Op& like, const std::string& suffix, std::string target, std::vector<Argument> arguments,
               std::vector<TensorId> inputs, Tensor output) {
    Op op;
    op.name = like.name + suffix;
    op.target = std::move(target);
    op.arguments = std::move(arguments);
    op.inputs = std::move(inputs);
    op.source = like.source;
    op.module = like.module;
    output.name = op.name;
    graph_.tensors.push_back(std::move(output));
    const auto id = static_cast<TensorId>(graph_.tensors.size() - 1);
    op.outputs = {id};
    push(std::move(op));
    return id;
  }

  static Tensor activation(DType dtype, Shape shape) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    return tensor;
  }

  // The sum of weights of the targets that count. In float32 at least: a bfloat16 counts exactly only to 256.
  TensorId denominator(const Op& op, DType dtype) {
    const TensorId target = op.inputs[input_place(op, "target")];
    const Shape shape = graph_.tensors[target].shape;
    const Argument* ignored = find_argument(op, "ignore_index");
    const TensorId valid =
        add(op, ".valid", "aten::ne.Scalar",
            {{"self", InputRef{0}}, {"other", ignored == nullptr ? ArgumentValue(BatchExpr(-100)) : ignored->value}},
            {target}, activation(DType::kBool, shape));
    const Argument sum_dtype{"dtype", dtype};
    const std::int32_t weight_place = input_place(op, "weight");
    if (weight_place == kNone) {
      return add(op, ".count", "aten::sum.default", {{"self", InputRef{0}}, sum_dtype}, {valid}, activation(dtype, {}));
    }
    const TensorId weight = op.inputs[weight_place];
    const std::vector<Argument> both = {{"self", InputRef{0}}, {"other", InputRef{1}}};
    const TensorId index = add(op, ".index", "aten::mul.Tensor", both, {target, valid},
                               activation(graph_.tensors[target].dtype, shape));  // ignored ones ask for class 0
    const TensorId weights = add(op, ".weights", "aten::take.default", {{"self", InputRef{0}}, {"index", InputRef{1}}},
                                 {weight, index}, activation(graph_.tensors[weight].dtype, shape));
    const TensorId counted = add(op, ".counted", "aten::mul.Tensor", both, {weights, valid},
                                 activation(graph_.tensors[weight].dtype, shape));
    return add(op, ".count", "aten::sum.default", {{"self", InputRef{0}}, sum_dtype}, {counted}, activation(dtype, {}));
  }

  void rewrite(Op op) {
    const TensorId mean = op.outputs[0];
    const DType dtype = graph_.tensors[mean].dtype;
    const DType wide = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
    const TensorId count = denominator(op, wide);

    Tensor summed = activation(dtype, {});
    summed.name = op.name + ".sum";
    summed.requires_gradient = graph_.tensors[mean].requires_gradient;
    graph_.tensors.push_back(summed);
    const auto sum = static_cast<TensorId>(graph_.tensors.size() - 1);
    const Op like = op;
    set_reduction(op, kSum);
    op.outputs = {sum};
    push(std::move(op));

    Op divide;
    divide.name = like.name + ".mean";
    divide.target = "aten::div.Tensor";
    divide.arguments = {{"self", InputRef{0}}, {"other", InputRef{1}}};
    divide.inputs = {sum, count};
    divide.source = like.source;
    divide.module = like.module;
    if (wide == dtype) {
      divide.outputs = {mean};
      push(std::move(divide));
      return;
    }
    Tensor quotient = activation(wide, {});
    quotient.name = divide.name;
    quotient.requires_gradient = graph_.tensors[mean].requires_gradient;
    graph_.tensors.push_back(quotient);
    divide.outputs = {static_cast<TensorId>(graph_.tensors.size() - 1)};
    Op narrow;
    narrow.name = like.name + ".narrow";
    narrow.target = "aten::to.dtype";
    narrow.arguments = {{"self", InputRef{0}}, {"dtype", dtype}};
    narrow.inputs = divide.outputs;
    narrow.outputs = {mean};
    narrow.source = like.source;
    narrow.module = like.module;
    push(std::move(divide));
    push(std::move(narrow));
  }

  Graph& graph_;
};

}  // namespace

void rewrite_mean_losses(Graph& graph) { Rewriter(graph).run(); }

}  // namespace motley
