#pragma once

// A strategy becomes a deployment.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/deployment.h"
#include "compiler/strategy.h"
#include "profiler/cost_model.h"

namespace motley {

// Why a strategy cannot be compiled at this batch size (a result, not an error): a batch smaller than a group's
// replicas, a group whose ops cannot be replicated.
struct NotCompilable {
  std::string reason;  // names the group and what to change
};

// Deterministic. Throws Error(kInvalidInput) when the strategy does not fit the graph or the cluster (number of groups,
// unknown devices, weights not positive). The order of each program is by upward rank over compute and transfers
// (Topcuoglu, Hariri, Wu: HEFT, IEEE TPDS 2002, section 4.1), with costs from `costs`.
std::variant<Deployment, NotCompilable> compile(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                                const Strategy& strategy, std::int64_t batch);

}  // namespace motley
