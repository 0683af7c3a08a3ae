#pragma once

// What commands say about strategies, as tables for people and as JSON (docs/json.md).

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "strategy/planner.h"

namespace motley {

// {strategy, iteration_seconds, feasible, reasons, peak_memory_bytes: {device: n}, memory: {device: {...}},
// estimated_share}; iteration_seconds is null when the strategy could not be compiled.
nlohmann::json to_json(const Evaluation& evaluation, const Cluster& cluster);
// The same of the chosen strategy, with lower_bound_seconds, evaluations and, when nothing fits, changes.
nlohmann::json to_json(const Plan& plan, const Cluster& cluster);

// What costs rest on, where that is others' profiles (Workbench::basis): the key "costs", or a line; else nothing.
void add_basis(nlohmann::json& json, const std::string& basis);
std::string basis_text(const std::string& basis);

// One row per strategy, fastest feasible first; below it why those that do not fit do not.
std::string comparison_table(std::vector<Evaluation> evaluations, const Cluster& cluster);
// One row per device: share of the work, compute time, idle time, peak memory.
std::string device_table(const Evaluation& evaluation, const Evaluator& evaluator);
// One row per device: what fills it at its peak. Uses that no device has are left out.
std::string memory_table(const Evaluation& evaluation, const Cluster& cluster);
// One row per run of neighbouring op groups that are decided alike.
std::string placement_table(const Strategy& strategy, const Evaluator& evaluator);

// The chosen strategy, its devices, the bound; or why nothing fits and what would.
std::string plan_report(const Plan& plan, const Evaluator& evaluator);
// Who does what in `subject`, and what the alternatives that the search came across would take instead.
std::string explanation(const Evaluation& subject, const Plan& plan, const Evaluator& evaluator);
nlohmann::json explanation_json(const Evaluation& subject, const Plan& plan, const Evaluator& evaluator);

}  // namespace motley
