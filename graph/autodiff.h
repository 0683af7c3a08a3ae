#pragma once

// A forward graph becomes a training graph: one kInputGradient and one kWeightGradient op per forward op that needs
// them, sums where a tensor's gradient has several parts (tied weights among them), and one update per parameter.
//
// - The gradient of the loss by itself is a tensor without a producer, "LOSS.seed".
// - A backward op is named like its forward op with ".dx" (activations) or ".dw" (parameters); its inputs are the
//   gradients of the forward op's outputs, then all tensors that autograd keeps for the op, since its context holds
//   them until its last backward op.
// - Layouts: the gradient of a kSplit tensor is kSplit alike. That of a kIndependent tensor, and of a kPartialMean one
//   (seeded with the replica's share), is kPartialSum. That of a kPartialSum one is the same on all replicas.
// - A parameter that the loss does not depend on gets no gradient and no update, as in PyTorch.
// - States are named "optimizer.PARAMETER.STATE", STATE as PyTorch's optimizers call it: "momentum_buffer" of SGD with
//   momentum; "exp_avg", "exp_avg_sq" and the scalar "step" of Adam and AdamW. The update's target is "sgd", "adam" or
//   "adamw".

#include "graph/graph.h"

namespace motley {

// Needs layouts (graph/batch_analysis.h) and requires_gradient of parameters and activations, as the model has it;
// clears it where no gradient can flow. Throws Error(kUnsupported) naming the op and its line when no gradient reaches
// any parameter.
void differentiate(Graph& graph, const OptimizerOptions& optimizer);

}  // namespace motley
