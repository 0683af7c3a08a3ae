#pragma once

// What a forward op leaves for its backward ops: its part of LibTorch's autograd graph, cut off at the op's inputs.
//
// LibTorch's engine runs a whole graph; to run that of one op, a few nodes, it costs more than many an op. So the nodes
// are called here one after the other. A node skips the gradients whose edges lead nowhere; that is how gradients for
// activations and for parameters are computed apart.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/saved_tensors.h"

namespace motley {

class OpContext {
 public:
  // Makes `input` (a tensor of an op about to run) a place where its gradient ends. A tensor may serve many ops; an op
  // that takes it twice needs another() for the second place, else the gradients of both places would come as one.
  static void attach(at::Tensor& input);
  static at::Tensor another(const at::Tensor& input);

  // After the op ran: takes its nodes out of `outputs`, which from then on are free of them. `inputs` as the op took
  // them; `places`: those whose gradients will be asked for.
  OpContext(std::span<const at::Tensor> inputs, const std::vector<std::int32_t>& places,
            std::vector<at::Tensor>& outputs);

  // The gradients for inputs at `places`, given those of the outputs at `seeds` (undefined: nobody made it). An input
  // that no gradient reaches gets zeros. May be called again, with other places.
  std::vector<at::Tensor> backward(std::span<const std::int32_t> seeds, std::span<const at::Tensor> gradients,
                                   std::span<const std::int32_t> places);

  struct Stash {
    OpId op;  // the backward op that will ask for them
    std::vector<at::Tensor> gradients;
  };
  std::optional<Stash> stash;           // computed beside those of another backward op
  std::optional<SavedTensors> brought;  // what backward ops bring is not here between them
  std::int32_t runs_left = 0;           // backward ops that have not run yet

 private:
  struct Step {  // one node, in the order of the backward pass
    c10::intrusive_ptr<torch::autograd::Node> node;
    torch::autograd::edge_list edges;  // as the op made them
  };
  std::size_t step_of(const torch::autograd::Node* node) const;  // steps_.size() for an input
  void order_nodes();

  std::vector<torch::autograd::Edge> roots_;                          // per output
  std::vector<std::pair<std::int32_t, torch::autograd::Edge>> ends_;  // per place
  std::vector<Step> steps_;
  bool ordered_ = false;
};

}  // namespace motley
