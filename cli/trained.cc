#include "cli/trained.h"

#include <algorithm>

#include "base/units.h"
#include "cli/accuracy.h"
#include "cli/session.h"
#include "cli/text_table.h"
#include "compiler/serialize.h"
#include "simulator/timeline.h"

namespace motley {

void Trained::add(const proto::JobEvent& event) {
  switch (event.event_case()) {
    case proto::JobEvent::kPlan:
      plan_ = event.plan();
      break;
    case proto::JobEvent::kCluster:
      cluster_ = cluster_of(event);
      break;
    case proto::JobEvent::kMetrics:
      losses_.push_back(event.metrics().loss());
      seconds_[event.metrics().iteration()] = event.metrics().seconds();
      break;
    case proto::JobEvent::kTimeline:
      timelines_.push_back(event.timeline());
      break;
    case proto::JobEvent::kSaved:
      saved_.push_back(event.saved());
      break;
    case proto::JobEvent::kWorker:
      if (event.worker().has_memory()) memory_[event.worker().device()] = event.worker().memory();
      break;
    default:
      break;
  }
}

double Trained::measured_seconds() const {
  std::vector<double> warm;
  for (auto one = std::next(seconds_.begin(), seconds_.size() > 4 ? 2 : 0); one != seconds_.end(); ++one) {
    warm.push_back(one->second);
  }
  if (warm.empty()) return 0;
  const auto middle = warm.begin() + static_cast<std::ptrdiff_t>(warm.size() / 2);
  std::nth_element(warm.begin(), middle, warm.end());
  return *middle;
}

std::vector<Timeline> Trained::timelines() const {
  std::vector<Timeline> timelines{{"predicted", events_of(plan_.predicted(), 0), {}}};
  if (!timelines_.empty()) {
    const proto::Timeline measured = merge(timelines_);
    const std::int32_t iteration = typical_iteration(measured);
    const auto seconds = seconds_.find(iteration);
    timelines.push_back(
        {"measured", events_of(measured, iteration), {}, Seconds(seconds == seconds_.end() ? 0 : seconds->second)});
  }
  return timelines;
}

std::string Trained::trace(const Graph& graph) const {
  return trace_json(graph, cluster_, deserialize_deployment(plan_.deployment(), "the coordinator's plan"), timelines());
}

nlohmann::json Trained::to_json(const Graph& graph) const {
  nlohmann::json predicted_peak = nlohmann::json::object();
  nlohmann::json measured_peak = nlohmann::json::object();
  nlohmann::json memory = nlohmann::json::object();
  for (const auto& predicted : plan_.judged().memory()) {
    predicted_peak[predicted.device()] = predicted.peak_bytes();
    memory[predicted.device()].update({{"predicted_peak_bytes", predicted.peak_bytes()},
                                       {"predicted_allocated_bytes", predicted.allocated_bytes()},
                                       {"predicted_reserved_bytes", predicted.reserved_bytes()},
                                       {"capacity_bytes", predicted.capacity_bytes()},
                                       {"headroom_bytes", predicted.headroom_bytes()}});
  }
  for (const auto& [device, measured] : memory_) {
    measured_peak[device] = measured.device_peak();
    memory[device].update({{"measured_peak_bytes", measured.device_peak()},
                           {"measured_allocated_bytes", measured.allocated_peak()},
                           {"measured_reserved_bytes", measured.reserved_peak()}});
  }
  nlohmann::json seconds = nlohmann::json::array();
  for (const auto& [iteration, one] : seconds_) seconds.push_back(one);
  nlohmann::json json{{"strategy", plan_.judged().name()},
                      {"predicted_seconds", plan_.judged().iteration_seconds()},
                      {"measured_seconds", measured_seconds()},
                      {"lower_bound_seconds", plan_.lower_bound_seconds()},
                      {"estimated_share", plan_.judged().estimated_share()},
                      {"seconds", seconds},
                      {"losses", losses_},
                      {"memory", memory},
                      {"predicted_peak_memory_bytes", predicted_peak},
                      {"measured_peak_memory_bytes", measured_peak},
                      {"saved", saved_}};
  if (!timelines_.empty()) {
    const Deployment deployment = deserialize_deployment(plan_.deployment(), "the coordinator's plan");
    const std::vector<Timeline> both = timelines();
    json["accuracy"] = accuracy_json(compare(graph, deployment, both[0], both[1]), graph, cluster_, deployment);
  }
  return json;
}

std::string run_table(const std::vector<Trained>& all) {
  const auto even =
      std::find_if(all.begin(), all.end(), [](const Trained& run) { return run.plan().judged().name() == "ev-ar"; });
  const Trained& reference = even == all.end() ? all.front() : *even;
  TextTable table({"strategy", "> predicted", "> measured", "> error",
                   "> speed-up over " + reference.plan().judged().name(), "> first loss", "> last loss"});
  for (const Trained& run : all) {
    const double predicted = run.plan().judged().iteration_seconds();
    const double measured = run.measured_seconds();
    table.add({run.plan().judged().name(), to_string(Seconds(predicted)), to_string(Seconds(measured)),
               signed_percent(predicted / measured - 1), formatted("%.2f", reference.measured_seconds() / measured),
               formatted("%.4f", run.losses().front()), formatted("%.4f", run.losses().back())});
  }
  return table.to_string();
}

std::string run_memory_table(const std::vector<Trained>& all) {
  TextTable table({"strategy", "peak memory of", "> predicted", "> measured", "> error", "> of"});
  for (const Trained& run : all) {
    for (const auto& predicted : run.plan().judged().memory()) {
      const auto measured = run.memory().find(predicted.device());
      const bool known = measured != run.memory().end();
      const Bytes said(predicted.peak_bytes());
      const Bytes needed(known ? measured->second.device_peak() : 0);
      table.add({run.plan().judged().name(), predicted.device(), to_string(said), known ? to_string(needed) : "-",
                 known ? signed_percent(said / needed - 1) : "-", to_string(Bytes(predicted.capacity_bytes()))});
    }
  }
  return table.to_string();
}

}  // namespace motley
