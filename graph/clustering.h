#pragma once

// Op groups: what a strategy decides on. At most `max_groups`, unless more are impossible to... see below; convex, so
// that the groups form an acyclic graph and their order is topological.
//
// 1. Joined by force: ops around a tensor that cannot be cut (kMixed, kPartial*); views and what they look at; all
// users
//    of a buffer that is written; what is made of parameters and constants alone with its first user; and whatever lies
//    on a cycle between joined ops.
// 2. The joined sets are put in a topological order close to the program's, and neighbours are merged, lightest first,
//    until the bound holds and no group is lighter than half an even share. A merge weighs its share of FLOPs and of
//    parameter bytes against the bytes that cross the place where a cut would go, so cuts stay where few bytes cross;
//    neighbours in one module merge before others.
//
// Runs in O(n log n): tens of thousands of ops in well under a second.

#include "graph/graph.h"

namespace motley {

// Fills Graph::groups and Op::group of a training graph. Needs layouts.
void cluster(Graph& graph, std::int32_t max_groups);

}  // namespace motley
