#pragma once

// Where a prediction's error comes from (simulator/comparison.h), as tables for people and as JSON (docs/json.md).

#include <nlohmann/json.hpp>
#include <string>

#include "simulator/comparison.h"

namespace motley {

// The iteration's error, and what it consists of: by kind of instruction, by device, and the instructions that add
// most.
std::string accuracy_text(const Comparison& comparison, const Graph& graph, const Cluster& cluster,
                          const Deployment& deployment);
// {predicted_seconds, measured_seconds, along, kinds, devices, instructions, elsewhere}
nlohmann::json accuracy_json(const Comparison& comparison, const Graph& graph, const Cluster& cluster,
                             const Deployment& deployment);

}  // namespace motley
