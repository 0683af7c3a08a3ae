#pragma once

// A mean over the targets that count (cross_entropy, nll_loss with class indices and reduction "mean") is no weighted
// mean of the replicas' means: they may hold unequal numbers of ignored targets, or classes of unequal weight. It
// becomes the sum of losses over the sum of weights of the targets that count,
//
//   mean = cross_entropy(reduction="sum") / sum_j w[target_j] [target_j != ignore_index],
//
// which is PyTorch's definition, with label smoothing too (both of its terms have this denominator; see
// torch.nn.CrossEntropyLoss). The denominator comes from labels alone, so it can be made whole early.

#include "graph/graph.h"

namespace motley {

// Rewrites a forward graph in place; finished before and after.
void rewrite_mean_losses(Graph& graph);

}  // namespace motley
