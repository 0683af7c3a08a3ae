#include "tests/support/chain_graph.h"

#include <ostream>
#include <string>
#include <utility>

#include "base/error.h"

namespace motley::support {
namespace {

constexpr BatchLayout kIndependent{BatchLayout::Kind::kIndependent};
constexpr BatchLayout kSamples{BatchLayout::Kind::kSplit};
constexpr BatchLayout kMean{BatchLayout::Kind::kPartialMean};
constexpr BatchLayout kSum{BatchLayout::Kind::kPartialSum};

class ChainBuilder {
 public:
  explicit ChainBuilder(const ChainOptions& options) : options_(options) {}

  Graph build() {
    graph_.name = "chain";
    graph_.fingerprint = "chain";
    graph_.optimizer.momentum = options_.momentum;
    TensorId value = tensor("x", rows(), TensorRole::kInput, kSamples);
    graph_.inputs = {value};
    if (options_.shared) {
      add_group("shared");
      shared_ = forward("shared.double", "double", {parameter("shared.weight", {options_.width})}, {options_.width},
                        kIndependent);
    }
    for (int i = 0; i < options_.layers; ++i) value = layer(i, value);
    graph_.loss = options_.balance ? balanced_loss(value) : forward("loss", "aten::mean.default", {value}, {}, kMean);
    const std::size_t forward_ops = graph_.ops.size();
    seed();
    for (std::size_t i = forward_ops; i-- > 0;) backward(static_cast<OpId>(i));
    for (TensorId parameter : parameters_) update(parameter);
    graph_.finish();
    return std::move(graph_);
  }

 private:
  Shape rows() const { return {BatchExpr::batch(), options_.width}; }
  Tensor& at(TensorId id) { return graph_.tensors[static_cast<std::size_t>(id)]; }

  TensorId tensor(std::string name, Shape shape, TensorRole role, BatchLayout layout) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    tensor.role = role;
    tensor.layout = layout;
    graph_.tensors.push_back(std::move(tensor));
    parts_.emplace_back();
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  void add_group(const std::string& name) {
    graph_.groups.emplace_back();
    graph_.groups.back().name = name;
  }

  TensorId balanced_loss(TensorId value) {
    const TensorId mean = forward("mean", "aten::mean.default", {value}, {}, kMean);
    const TensorId square = forward("square", "aten::mul.Tensor", {mean, mean}, {}, kIndependent);
    graph_.ops.back().completes = {0, 1};
    return forward("loss", "aten::add.Tensor", {mean, square}, {}, kMean);
  }

  OpId add_op(Op op) {
    const auto id = static_cast<OpId>(graph_.ops.size());
    for (TensorId output : op.outputs) at(output).producer = id;
    graph_.ops.push_back(std::move(op));
    return id;
  }

  TensorId parameter(const std::string& name, Shape shape) {
    const TensorId id = tensor(name, std::move(shape), TensorRole::kParameter, kIndependent);
    at(id).requires_gradient = true;
    parameters_.push_back(id);
    graph_.groups.back().parameters.push_back(id);
    return id;
  }

  TensorId forward(const std::string& name, std::string target, std::vector<TensorId> inputs, Shape shape,
                   BatchLayout layout) {
    Op op;
    op.name = name;
    op.target = std::move(target);
    op.inputs = std::move(inputs);
    op.outputs = {tensor(name, std::move(shape), TensorRole::kActivation, layout)};
    op.group = static_cast<GroupId>(graph_.groups.size() - 1);
    at(op.outputs[0]).requires_gradient = true;
    const TensorId output = op.outputs[0];
    graph_.groups.back().ops.push_back(add_op(std::move(op)));
    return output;
  }

  TensorId layer(int index, TensorId input) {
    const std::string name = "l" + std::to_string(index);
    add_group(name);
    TensorId weight = 0;
    TensorId bias = 0;
    if (options_.tied && index > 0 && index == options_.layers - 1) {
      weight = first_weight_;
      bias = first_bias_;
    } else {
      weight = parameter(name + ".weight", {options_.width, options_.width});
      bias = parameter(name + ".bias", {options_.width});
    }
    if (index == 0) {
      first_weight_ = weight;
      first_bias_ = bias;
    }
    TensorId value = forward(name + ".linear", "aten::linear.default", {input, weight, bias}, rows(), kSamples);
    value = forward(name + ".relu", "aten::relu.default", {value}, rows(), kSamples);
    if (options_.residual && index % 2 == 1) {
      value = forward(name + ".add", "aten::add.Tensor", {value, input}, rows(), kSamples);
    }
    if (options_.shared) value = forward(name + ".shift", "aten::add.Tensor", {value, shared_}, rows(), kSamples);
    return value;
  }

  void seed() {
    const TensorId id = tensor("loss.seed", {}, TensorRole::kGradient, kSum);
    at(id).gradient_of = graph_.loss;
    parts_[static_cast<std::size_t>(graph_.loss)] = {id};
  }

  TensorId gradient(const Op& forward_op, std::int32_t input) {
    const TensorId of = forward_op.inputs[static_cast<std::size_t>(input)];
    const bool split = at(of).layout.kind == BatchLayout::Kind::kSplit;
    const TensorId id = tensor(forward_op.name + ".d" + std::to_string(input), at(of).shape, TensorRole::kGradient,
                               split ? kSamples : kSum);
    at(id).gradient_of = of;
    parts_[static_cast<std::size_t>(of)].push_back(id);
    return id;
  }

  // The one gradient of `of`: its only part, or the sum of its parts, made now.
  TensorId whole_gradient(TensorId of) {
    std::vector<TensorId> parts = parts_[static_cast<std::size_t>(of)];
    MOTLEY_CHECK(!parts.empty(), at(of).name);
    if (parts.size() > 1) {
      Op sum;
      sum.kind = OpKind::kGradientSum;
      sum.name = at(of).name + ".sum";
      sum.target = "sum";
      sum.inputs = parts;
      const OpId maker = at(of).producer != kNone ? at(of).producer : graph_.groups[0].ops[0];
      sum.group = graph_.ops[static_cast<std::size_t>(maker)].group;
      const TensorId total = tensor(sum.name, at(of).shape, TensorRole::kGradient, at(parts[0]).layout);
      at(total).gradient_of = of;
      sum.outputs = {total};
      add_op(std::move(sum));
      parts_[static_cast<std::size_t>(of)] = {total};
      return total;
    }
    return parts[0];
  }

  void backward(OpId id) {
    const Op op = graph_.ops[static_cast<std::size_t>(id)];
    const TensorId output_gradient = whole_gradient(op.outputs[0]);
    const bool linear = op.target == "aten::linear.default";
    Op dx;
    dx.kind = OpKind::kInputGradient;
    dx.name = op.name + ".dx";
    dx.target = op.target;
    dx.group = op.group;
    dx.forward = id;
    dx.gradient_outputs = {0};
    dx.inputs = {output_gradient};
    if (linear) {
      Op dw = dx;
      dw.kind = OpKind::kWeightGradient;
      dw.name = op.name + ".dw";
      dw.inputs.push_back(op.inputs[0]);
      dw.gradient_inputs = {1, 2};
      dw.outputs = {gradient(op, 1), gradient(op, 2)};
      if (at(op.inputs[0]).role != TensorRole::kInput) {
        dx.inputs.push_back(op.inputs[1]);
        dx.gradient_inputs = {0};
        dx.outputs = {gradient(op, 0)};
        add_op(std::move(dx));
      }
      add_op(std::move(dw));
      return;
    }
    if (op.target == "aten::relu.default") dx.inputs.push_back(op.outputs[0]);
    if (op.target == "aten::mul.Tensor") dx.inputs.insert(dx.inputs.end(), op.inputs.begin(), op.inputs.end());
    if (op.target == "double") {
      dx.kind = OpKind::kWeightGradient;
      dx.name = op.name + ".dw";
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (at(op.inputs[i]).role == TensorRole::kInput) continue;
      dx.gradient_inputs.push_back(static_cast<std::int32_t>(i));
      dx.outputs.push_back(gradient(op, static_cast<std::int32_t>(i)));
    }
    add_op(std::move(dx));
  }

  void update(TensorId parameter) {
    Op op;
    op.kind = OpKind::kUpdate;
    op.name = at(parameter).name + ".update";
    op.target = "sgd";
    op.inputs = {parameter, whole_gradient(parameter)};
    op.writes = {parameter};
    for (std::size_t i = 0; i < graph_.groups.size(); ++i) {
      for (TensorId owned : graph_.groups[i].parameters) {
        if (owned == parameter) op.group = static_cast<GroupId>(i);
      }
    }
    if (options_.momentum > 0) {
      const TensorId state =
          tensor(at(parameter).name + ".momentum", at(parameter).shape, TensorRole::kOptimizerState, kIndependent);
      at(state).state_of = parameter;
      op.inputs.push_back(state);
      op.writes.push_back(state);
    }
    add_op(std::move(op));
  }

  ChainOptions options_;
  Graph graph_;
  std::vector<TensorId> parameters_;
  TensorId first_weight_ = kNone;
  TensorId first_bias_ = kNone;
  TensorId shared_ = kNone;
  std::vector<std::vector<TensorId>> parts_;  // by tensor: the parts of its gradient made so far
};

}  // namespace

void PrintTo(const ChainOptions& options, std::ostream* out) {
  *out << options.layers << " layers of " << options.width << (options.residual ? ", residual" : "")
       << (options.tied ? ", tied" : "") << (options.shared ? ", shared" : "") << (options.balance ? ", balance" : "")
       << ", momentum " << options.momentum;
}

Graph chain_graph(const ChainOptions& options) { return ChainBuilder(options).build(); }

OpId op_named(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].name == name) return static_cast<OpId>(i);
  }
  MOTLEY_CHECK(false, "no op " + std::string(name));
  return kNone;
}

TensorId tensor_named(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == name) return static_cast<TensorId>(i);
  }
  MOTLEY_CHECK(false, "no tensor " + std::string(name));
  return kNone;
}

}  // namespace motley::support
