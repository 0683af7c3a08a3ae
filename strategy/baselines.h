#pragma once

// Strategies by name: what people use today, and what a search starts from.
//
//   ev-ps, ev-ar   every group on all devices with even shares; gradients by parameter server or all-reduce
//   cp-ps, cp-ar   the same with shares proportional to each device's speed on this model (1 / the compute time of a
//                  whole iteration there)
//   mp:DEVICE      everything on one device
//   mp-blocks      contiguous blocks of groups, in the model's order, over all devices in the cluster's order; blocks
//                  as even in time as the devices' speeds and memories let them be
//   pp:SCHEDULE    a pipeline of even stages, as if all devices were alike (strategy/pipelines.h)

#include <string>
#include <vector>

#include "compiler/strategy.h"
#include "profiler/cost_model.h"

namespace motley {

// With more devices than these, what does not treat most of them alike takes too long to simulate for a search.
inline constexpr std::size_t kManyDevices = 256;

// The names that are compared on this cluster, data-parallel ones first. Of pipelines, gpipe and 1f1b on up to 16
// devices; the other schedules are known by name as well. With many devices no parameter servers, and one device of
// each kind.
std::vector<std::string> strategy_names(const Cluster& cluster);

// Throws Error(kInvalidInput) with the nearest name when `name` is none of these, on a cluster with these devices; mp:
// of any device will do when none are given.
void check_strategy_name(const std::string& name, const std::vector<std::string>& devices);

// Throws Error(kInvalidInput) as check_strategy_name when `name` is none of them. A baseline may not be compilable
// (ev-ar at a batch smaller than the number of devices) and need not fit in memory. Thread-safe.
Strategy baseline(const std::string& name, const Graph& graph, const Cluster& cluster, const CostModel& costs,
                  std::int64_t batch);

// All groups with the same decision.
Strategy uniform_strategy(const std::string& name, const Graph& graph, const GroupDecision& decision);

}  // namespace motley
