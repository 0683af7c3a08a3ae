#pragma once

// Where a search starts from beyond the baselines: strategies that are good for a reason.

#include <vector>

#include "strategy/evaluate.h"
#include "strategy/work.h"

namespace motley {

// Data parallelism on sets of devices, with shares by speed, by either gradient method: all sets of up to four devices;
// of more, those of the k fastest, and those of each node's and each kind's; of many (kManyDevices), those that are
// alike count as one. Throws nothing; some may not be feasible.
std::vector<Strategy> data_parallel_starts(const Evaluator& evaluator, const std::vector<GroupWork>& work);

// Of strategies that lack memory, the fastest, made to need less: in micro-batches, which keep so many times fewer
// activations, with recomputation, or both.
std::vector<Strategy> fitting_starts(const std::vector<Evaluation>& starts, std::int64_t batch);

// Variants of `best` in which the groups that carry the most parameters for their compute time are gathered on one of
// their devices, or use the parameter server: what large embeddings and final layers gain by.
std::vector<Strategy> parameter_heavy_starts(const Evaluator& evaluator, const std::vector<GroupWork>& work,
                                             const Strategy& best);

// The model cut in two at every quarter, with one of `sides` before the cut and another behind it: the first groups'
// gradients come last, when no compute is left to hide their exchange, and the last groups often have large parameters
// and small activations, so they may want other devices than the rest.
std::vector<Strategy> cut_starts(const Evaluator& evaluator, const std::vector<GroupDecision>& sides);

}  // namespace motley
