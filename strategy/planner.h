#pragma once

// A plan: the strategy that was chosen, what it is predicted to do, how good it can still get, and why it and no other.

#include <string>
#include <vector>

#include "strategy/bound/bound.h"
#include "strategy/search/search.h"

namespace motley {

// What a decision is worth: the best strategy found that decides otherwise, and how much longer it takes.
struct RunnerUp {
  std::string decision;  // of the plan: "uses big/0", "places groups differently", "uses more than one device", ...
  std::string instead;   // of the runner-up: "without big/0", ...
  Evaluation evaluation;
  double times_slower = 0;  // its iteration time over the plan's; 0 when it is not feasible
};

struct Plan {
  Evaluation chosen;  // feasible() or the nearest to it that was found
  LowerBound bound;
  std::vector<Evaluation> baselines;  // as in SearchResult
  std::vector<RunnerUp> runners_up;   // the closest first, infeasible ones last
  std::int64_t evaluations = 0;
  std::vector<Improvement> improvements;  // of the search
  Seconds elapsed;

  // When nothing is feasible: why (of `chosen`), and the nearest changes that would make something so.
  std::vector<std::string> reasons;
  std::vector<std::string> changes;  // "a batch of 96 fits (mp-blocks)", "2.2 GiB more on big/0"

  bool feasible() const { return chosen.feasible(); }
};

// Throws Error(kInvalidInput) when `batch` is outside the graph's range. Thread-safe.
Plan plan(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch,
          const SearchOptions& options = {});

}  // namespace motley
