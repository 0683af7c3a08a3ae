#pragma once

// Strategies that cut the model in stages: the even ones that today's tools make, and those that a search starts from.

#include <string>
#include <vector>

#include "strategy/evaluate.h"

namespace motley {

// Stages as even as the groups let them be, as if all devices were alike: eight at most, each on as many devices, in
// the cluster's order; four micro-batches per stage (as many as GPipe's authors need to make its bubble small), fewer
// when the batch does not give each replica a sample. Named "pp:SCHEDULE". Thread-safe.
Strategy even_pipeline(const std::string& schedule, const Graph& graph, const Cluster& cluster, const CostModel& costs,
                       std::int64_t batch);

// The most promising pipelines over unequal devices, for various numbers of micro-batches. The cuts and each stage's
// devices (of one kind, any number of them) are found by dynamic programming from the last stage to the first: over the
// groups left, the devices of each kind left and the number of stages behind, which tells how many micro-batches a
// stage holds; the stage that takes longest is as fast as can be, within each device's memory. A stage that does not
// fit else recomputes. Exact for chains of groups, but for links, which count by kinds alone, where there are more than
// kCuts places to cut, and where devices of many kinds are taken several at a time. Empty with one device, and with
// very many.
inline constexpr std::size_t kCuts = 48;
std::vector<Strategy> pipeline_starts(const Evaluator& evaluator);

}  // namespace motley
