#include "runtime/op_context.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/input_metadata.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "base/error.h"

namespace motley {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
namespace autograd = torch::autograd::impl;

// Where the gradient of an op's input ends. A leaf's own end would hold the tensor, and with it its memory, until the
// backward pass, though most ops need only some of their inputs then.
struct InputEnd : public Node {
  explicit InputEnd(const at::Tensor& input) { add_input_metadata(input); }
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
};
bool is_input_end(const Node* node) { return dynamic_cast<const InputEnd*>(node) != nullptr; }

void add_to(at::Tensor& sum, at::Tensor&& part) { sum = sum.defined() ? sum.add(part) : std::move(part); }

}  // namespace

void OpContext::attach(at::Tensor& input) {
  if (autograd::grad_fn_unsafe(input) == nullptr) {
    autograd::set_gradient_edge(input, {c10::make_intrusive<InputEnd>(input), 0});
  }
}

at::Tensor OpContext::another(const at::Tensor& input) {
  at::Tensor copy = input.tensor_data();
  attach(copy);
  return copy;
}

OpContext::OpContext(std::span<const at::Tensor> inputs, const std::vector<std::int32_t>& places,
                     std::vector<at::Tensor>& outputs) {
  for (std::int32_t place : places) {
    if (inputs[place].defined()) ends_.emplace_back(place, autograd::gradient_edge(inputs[place]));
  }
  roots_.reserve(outputs.size());
  for (at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad()) {
      roots_.emplace_back();
      continue;
    }
    roots_.push_back(autograd::gradient_edge(output));
    // An output may be one of the inputs, or a view of it, which must keep theirs.
    const bool own = output.use_count() == 1 && autograd::get_view_autograd_meta(output) == nullptr;
    if (own) {
      autograd::set_gradient_edge(output, {c10::make_intrusive<InputEnd>(output), 0});
    } else {
      output = output.tensor_data();
    }
  }
}

std::size_t OpContext::step_of(const Node* node) const {
  std::size_t step = 0;
  while (step < steps_.size() && steps_[step].node.get() != node) ++step;
  return step;
}

void OpContext::order_nodes() {
  if (ordered_) return;
  ordered_ = true;
  const auto visit = [&](const Edge& edge) {
    if (!edge.is_valid() || is_input_end(edge.function.get()) || step_of(edge.function.get()) < steps_.size()) return;
    steps_.push_back({edge.function, edge.function->next_edges()});
  };
  for (const Edge& root : roots_) visit(root);
  for (std::size_t next = 0; next < steps_.size(); ++next) {
    const torch::autograd::edge_list edges = steps_[next].edges;  // visit() moves the steps
    for (const Edge& edge : edges) visit(edge);
  }
  // A node is made after those that its edges lead to.
  std::sort(steps_.begin(), steps_.end(),
            [](const Step& a, const Step& b) { return a.node->sequence_nr() > b.node->sequence_nr(); });
}

std::vector<at::Tensor> OpContext::backward(std::span<const std::int32_t> seeds, std::span<const at::Tensor> gradients,
                                            std::span<const std::int32_t> places) {
  order_nodes();
  std::vector<const Node*> wanted(places.size());
  std::vector<at::Tensor> results(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const auto& [place, edge] : ends_) {
      if (place == places[i]) wanted[i] = edge.function.get();
    }
  }
  const auto result_of = [&](const Node* end) {
    return static_cast<std::size_t>(std::find(wanted.begin(), wanted.end(), end) - wanted.begin());
  };

  // Open the edges that lead to wanted inputs, from the last node back.
  std::vector<bool> needed(steps_.size());
  for (std::size_t step = steps_.size(); step-- > 0;) {
    auto& open = steps_[step].node->next_edges();
    for (std::size_t i = 0; i < open.size(); ++i) {
      const Edge& edge = steps_[step].edges[i];
      const std::size_t next = step_of(edge.function.get());
      const bool leads =
          edge.is_valid() && (next < steps_.size() ? needed[next] : result_of(edge.function.get()) < wanted.size());
      open[i] = leads ? edge : Edge();
      needed[step] = needed[step] || leads;
    }
  }

  std::vector<variable_list> arriving(steps_.size());
  const auto arrive = [&](const Edge& edge, at::Tensor gradient) {
    if (!gradient.defined()) return;
    const std::size_t step = step_of(edge.function.get());
    if (step == steps_.size()) {
      const std::size_t result = result_of(edge.function.get());
      if (result < results.size()) add_to(results[result], std::move(gradient));
      return;
    }
    arriving[step].resize(edge.function->num_inputs());
    add_to(arriving[step][edge.input_nr], std::move(gradient));
  };
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (roots_[seeds[i]].is_valid()) arrive(roots_[seeds[i]], gradients[i]);
  }
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    if (!needed[step] || arriving[step].empty()) continue;
    Node& node = *steps_[step].node;
    variable_list made = node(std::move(arriving[step]));
    torch::autograd::validate_outputs(node.next_edges(), made,
                                      [&](const std::string& what) { return node.name() + ": " + what; });
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (node.next_edge(i).is_valid()) arrive(node.next_edge(i), std::move(made[i]));
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() && wanted[i] != nullptr) results[i] = wanted[i]->input_metadata(0).zeros_like();
  }
  return results;
}

}  // namespace motley
