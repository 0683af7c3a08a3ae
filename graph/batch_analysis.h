#pragma once

// How every tensor of a forward graph meets the batch: fills Tensor::layout and Op::completes.
//
// The claim behind a layout is that a replica which runs the same ops on b of the B samples holds what the layout says
// of the whole batch's tensor; tests/python/batch_layout_test.py checks it by running the examples on a batch and on
// its halves. Sizes say which dimension holds the batch; the analysis follows in which order samples stand there. What
// it cannot follow is kMixed, so a layout is never a guess, but for ops outside the table (graph/op_knowledge.h) that
// keep samples in dimension 0.
//
// - Batch norm in training uses the statistics of its replica's samples, and each replica keeps its own running
//   statistics, as torch.nn.parallel.DistributedDataParallel does: its output counts as kSplit.
// - Random ops draw per replica.
// - Rows that were sorted (kMixed outside) and put back by the inverse order are kSplit again, so routing tokens to
//   experts stays local to the layer.
// - What mixes samples (a contrastive loss) stays kMixed up to the loss, so a graph whose loss can be cut can be
// replicated
//   throughout; where the loss is kMixed, its group holds all that mixes and runs on one device.
// - A loss that is not reduced over the batch but made of whole (completed) values is the same on all replicas. It
// counts
//   as kPartialMean: the weighted mean of equal values is that value.

#include "graph/graph.h"

namespace motley {

void analyze_batch(Graph& graph);

}  // namespace motley
