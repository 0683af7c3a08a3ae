#include <algorithm>
#include <string>

#include "graph/op_knowledge.h"

namespace motley {
namespace {

// The numbers of one forward op at one batch size.
class OpSizes {
 public:
  OpSizes(const Graph& graph, const Op& op, std::int64_t batch) : graph_(graph), op_(op), batch_(batch) {}

  std::vector<double> shape(TensorId id) const {
    std::vector<double> sizes;
    for (const BatchExpr& size : graph_.tensors[id].shape) sizes.push_back(static_cast<double>(size.at(batch_)));
    return sizes;
  }
  std::vector<double> input(std::size_t place) const {
    return place < op_.inputs.size() ? shape(op_.inputs[place]) : std::vector<double>();
  }
  std::vector<double> argument(std::string_view name, std::size_t otherwise) const {
    const std::int32_t place = input_place(op_, name);
    return input(place == kNone ? otherwise : static_cast<std::size_t>(place));
  }
  std::vector<double> output() const {
    for (TensorId id : op_.outputs) {
      if (id != kNone) return shape(id);
    }
    return {};
  }
  double output_elements() const {
    double elements = 0;
    for (TensorId id : op_.outputs) {
      if (id != kNone) elements += product(shape(id));
    }
    return elements;
  }
  static double product(const std::vector<double>& sizes, std::size_t from = 0) {
    double all = 1;
    for (std::size_t i = from; i < sizes.size(); ++i) all *= sizes[i];
    return all;
  }

 private:
  const Graph& graph_;
  const Op& op_;
  std::int64_t batch_;
};

double at_end(const std::vector<double>& sizes, std::size_t from_end) {
  return sizes.size() < from_end ? 1 : sizes[sizes.size() - from_end];
}

// 2 * (elements of the output) * (size that is summed over).
double contraction_flops(const Op& op, const OpSizes& sizes) {
  const std::string_view name = functional_name(op.target);
  if (name == "einsum") {
    // Every label once: the product over all labels is the number of multiply-adds; labels in two operands count once.
    const Argument* equation = find_argument(op, "equation");
    const auto* text = equation == nullptr ? nullptr : std::get_if<std::string>(&equation->value);
    if (text != nullptr && text->find("...") == std::string::npos) {
      double multiply_adds = 1;
      std::string seen;
      std::size_t place = 0;
      std::size_t dim = 0;
      std::vector<double> operand = sizes.input(0);
      for (char label : *text) {
        if (label == '-') break;
        if (label == ' ') continue;
        if (label == ',') {
          operand = sizes.input(++place);
          dim = 0;
        } else {
          if (seen.find(label) == std::string::npos && dim < operand.size()) multiply_adds *= operand[dim];
          seen += label;
          ++dim;
        }
      }
      return 2 * multiply_adds;
    }
  }
  const std::vector<double> left = name == "addmm"                         ? sizes.argument("mat1", 1)
                                   : name == "baddbmm" || name == "addbmm" ? sizes.argument("batch1", 1)
                                                                           : sizes.input(0);
  const double reduced = at_end(left, 1);
  // addbmm also sums over its batch.
  return 2 * sizes.output_elements() * reduced * (name == "addbmm" && left.size() == 3 ? left[0] : 1);
}

double forward_work(const Op& op, const OpFacts& facts, const OpSizes& sizes) {
  switch (facts.work) {
    case WorkRule::kNothing:
      return 0;
    case WorkRule::kElements:
      return facts.forward_flops * sizes.output_elements();
    case WorkRule::kInputElements:
      return facts.forward_flops * OpSizes::product(sizes.input(0));
    case WorkRule::kContraction:
      return contraction_flops(op, sizes);
    case WorkRule::kConvolution:  // weight [out, in / groups, kernel...]
      return 2 * OpSizes::product(sizes.output()) * OpSizes::product(sizes.argument("weight", 1), 1);
    case WorkRule::kTransposedConvolution:  // weight [in, out / groups, kernel...]
      return 2 * OpSizes::product(sizes.input(0)) * OpSizes::product(sizes.argument("weight", 1), 1);
    case WorkRule::kAttention: {  // query [..., Sq, D], key [..., Sk, D], value [..., Sk, Dv]
      const std::vector<double> query = sizes.argument("query", 0);
      const double scores = OpSizes::product(query) / at_end(query, 1) * at_end(sizes.argument("key", 1), 2);
      return 2 * scores * (at_end(query, 1) + at_end(sizes.argument("value", 2), 1));
    }
    case WorkRule::kWindow:
      return std::max(OpSizes::product(sizes.input(0)), sizes.output_elements());
    case WorkRule::kRecurrent: {  // every weight matrix meets every step of every sample
      const std::vector<double> input = sizes.argument("input", 0);
      const double steps = OpSizes::product(input) / std::max(1.0, at_end(input, 1));
      double weights = 0;
      for (std::size_t place = 1; place < op.inputs.size(); ++place) {
        const std::vector<double> shape = sizes.input(place);
        if (shape.size() == 2) weights += OpSizes::product(shape);
      }
      return 2 * steps * weights;
    }
  }
  return 0;
}

// Of the places that get gradients, those whose gradient is a product of its own (not a bias, which is a sum).
std::size_t operand_count(const Graph& graph, const Op& forward, const std::vector<std::int32_t>& places) {
  std::size_t count = 0;
  for (std::int32_t place : places) count += graph.tensors[forward.inputs[place]].shape.size() > 1 ? 1 : 0;
  return count;
}

double backward_work(const Graph& graph, const Op& op, std::int64_t batch) {
  const Op& forward = graph.ops[op.forward];
  const OpFacts& facts = facts_of(forward.target);
  const OpSizes sizes(graph, forward, batch);
  const double places = static_cast<double>(op.gradient_inputs.size());
  const double own = forward_work(forward, facts, sizes);
  switch (facts.work) {
    case WorkRule::kContraction:
    case WorkRule::kConvolution:
    case WorkRule::kTransposedConvolution:
    case WorkRule::kRecurrent:
      return own * static_cast<double>(operand_count(graph, forward, op.gradient_inputs));
    case WorkRule::kAttention:
      return own * 2.5;
    case WorkRule::kNothing:
    case WorkRule::kElements:
      return facts.backward_flops * sizes.output_elements() * places;
    case WorkRule::kInputElements:
      return facts.backward_flops * OpSizes::product(sizes.input(0)) * places;
    case WorkRule::kWindow:
      return own;
  }
  return 0;
}

// Adam: two moments, their corrections, root, quotient; SGD: decay, momentum, step.
double update_flops_per_element(const OptimizerOptions& optimizer) {
  if (optimizer.kind != OptimizerOptions::Kind::kSgd) return 14;
  return 2 + (optimizer.momentum != 0 ? 2 : 0) + (optimizer.weight_decay != 0 ? 2 : 0);
}

double elements_of(const Graph& graph, TensorId id, std::int64_t batch) {
  return static_cast<double>(element_count(graph.tensors[id].shape).at(batch));
}

// Ops that read only the rows they are asked for.
bool reads_rows(BatchRule rule) {
  return rule == BatchRule::kEmbedding || rule == BatchRule::kIndex || rule == BatchRule::kGather ||
         rule == BatchRule::kSelect || rule == BatchRule::kSlice;
}

}  // namespace

Flops flops(const Graph& graph, const Op& op, std::int64_t batch) {
  switch (op.kind) {
    case OpKind::kForward:
      return Flops(op.is_view ? 0 : forward_work(op, facts_of(op.target), OpSizes(graph, op, batch)));
    case OpKind::kInputGradient:
    case OpKind::kWeightGradient:
      return Flops(op.is_view ? 0 : backward_work(graph, op, batch));
    case OpKind::kGradientSum:
      return Flops(static_cast<double>(op.inputs.size() - 1) * elements_of(graph, op.outputs[0], batch));
    case OpKind::kUpdate:
      return Flops(update_flops_per_element(graph.optimizer) * elements_of(graph, op.inputs[0], batch));
  }
  return {};
}

Bytes bytes_moved(const Graph& graph, const Op& op, std::int64_t batch) {
  Bytes total;
  if (op.is_view) return total;
  Bytes written;
  for (TensorId id : op.outputs) {
    if (id != kNone) written += graph.tensors[id].bytes(batch);
  }
  const BatchRule rule = op.kind == OpKind::kForward ? facts_of(op.target).batch : BatchRule::kUnknown;
  for (std::size_t place = 0; place < op.inputs.size(); ++place) {
    const Bytes size = graph.tensors[op.inputs[place]].bytes(batch);
    total += place == 0 && reads_rows(rule) ? std::min(size, written) : size;
  }
  for (TensorId id : op.writes) total += graph.tensors[id].bytes(batch);
  return total + written;
}

}  // namespace motley
