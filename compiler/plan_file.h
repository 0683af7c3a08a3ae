#pragma once

// The plan file (docs/plan.md): a strategy that people read, keep and change. YAML, of which JSON is a part; devices
// and groups by name.

#include <cstdint>
#include <string>

#include "compiler/strategy.h"

namespace motley {

struct PlanFile {
  Strategy strategy;
  std::int64_t batch = 0;  // the global batch that it was made for
};

// The strategy must fit graph and cluster.
std::string plan_to_yaml(const PlanFile& plan, const Graph& graph, const Cluster& cluster);

// Throws Error(kInvalidInput) naming file and line for what is no plan, a plan of another format version, graph
// (fingerprint) or cluster (device names), unknown devices or groups, groups that are missing or stand twice.
PlanFile parse_plan(const std::string& yaml, const std::string& source, const Graph& graph, const Cluster& cluster);
PlanFile read_plan(const std::string& path, const Graph& graph, const Cluster& cluster);

}  // namespace motley
