#pragma once

// What a job that trained has told: its plan, its losses and times, its timeline.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "proto/cluster.h"
#include "proto/coordinator_service.pb.h"
#include "simulator/trace.h"

namespace motley {

class Trained {
 public:
  void add(const proto::JobEvent& event);

  const proto::PlanFound& plan() const { return plan_; }
  const std::vector<double>& losses() const { return losses_; }
  const std::map<std::string, proto::MemoryUse>& memory() const { return memory_; }  // measured, by device
  // Median over the iterations, the first two (warm-up) left out when there are more than four. 0 before any ended.
  double measured_seconds() const;
  // Predicted and measured timelines side by side (simulator/trace.h).
  std::string trace(const Graph& graph) const;
  // {strategy, predicted_seconds, measured_seconds, lower_bound_seconds, estimated_share, seconds: [...], losses:
  // [...], memory: {device: {predicted_peak_bytes, measured_peak_bytes, and likewise allocated and reserved,
  // capacity_bytes, headroom_bytes}},
  // predicted_peak_memory_bytes: {device: n}, measured_peak_memory_bytes: {device: n}, saved: [file, ...]};
  // and, when timelines were measured, accuracy (cli/accuracy.h).
  nlohmann::json to_json(const Graph& graph) const;

 private:
  // The predicted one and, when there is one, the typical measured one.
  std::vector<Timeline> timelines() const;

  proto::PlanFound plan_;
  Cluster cluster_;
  std::vector<double> losses_;
  std::map<std::int64_t, double> seconds_;  // by iteration
  std::vector<proto::Timeline> timelines_;
  std::vector<std::string> saved_;
  std::map<std::string, proto::MemoryUse> memory_;  // by device
};

// One row per strategy: predicted, measured, error, speed over ev-ar (or over the first, when that did not run).
std::string run_table(const std::vector<Trained>& all);
// One row per strategy and device: the peak of its memory, predicted and measured.
std::string run_memory_table(const std::vector<Trained>& all);

}  // namespace motley
