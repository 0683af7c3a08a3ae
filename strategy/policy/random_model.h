#pragma once

// Models that nobody made, for a policy to learn from: of the sorts that people train (transformers, convolutional
// networks with and without branches, recommenders with large tables, plain and branching perceptrons), with sizes
// drawn over several orders of magnitude. Real ops with real shapes, so that everything that takes a model takes these.

#include <cstdint>

#include "graph/graph.h"

namespace motley {

// A training graph with at most 48 op groups. The same seed gives the same graph. Thread-safe.
Graph random_model(std::uint64_t seed);

}  // namespace motley
