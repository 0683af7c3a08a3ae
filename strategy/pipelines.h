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

// The most promising pipelines over unequal devices (strategy/stage_search.h), the first by its estimate first, for
// various numbers of micro-batches; of one stage too, which is data parallelism that accumulates gradients. Empty with
// one device, and with very many.
std::vector<Strategy> pipeline_starts(const Evaluator& evaluator);

}  // namespace motley
