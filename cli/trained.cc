#include "cli/trained.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/units.h"
#include "cli/session.h"
#include "cli/text_table.h"
#include "compiler/serialize.h"
#include "simulator/timeline.h"
#include "simulator/trace.h"

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
      seconds_.push_back(event.metrics().seconds());
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
  std::vector<double> sorted(seconds_.begin() + (seconds_.size() > 4 ? 2 : 0), seconds_.end());
  if (sorted.empty()) return 0;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::string Trained::trace(const Graph& graph) const {
  const Deployment deployment = deserialize_deployment(plan_.deployment(), "the coordinator's plan");
  std::vector<Timeline> timelines{{"predicted", events_of(plan_.predicted(), 0), {}}};
  if (!timelines_.empty()) {
    const proto::Timeline measured = merge(timelines_);
    timelines.push_back({"measured", events_of(measured, typical_iteration(measured)), {}});
  }
  return trace_json(graph, cluster_, deployment, timelines);
}

nlohmann::json Trained::to_json() const {
  nlohmann::json predicted_peak = nlohmann::json::object();
  nlohmann::json measured_peak = nlohmann::json::object();
  nlohmann::json memory = nlohmann::json::object();
  for (const auto& predicted : plan_.judged().memory()) {
    predicted_peak[predicted.device()] = predicted.peak_bytes();
    memory[predicted.device()].update({{"predicted_peak_bytes", predicted.peak_bytes()},
                                       {"predicted_allocated_bytes", predicted.allocated_bytes()},
                                       {"predicted_reserved_bytes", predicted.reserved_bytes()}});
  }
  for (const auto& [device, measured] : memory_) {
    measured_peak[device] = measured.device_peak();
    memory[device].update({{"measured_peak_bytes", measured.device_peak()},
                           {"measured_allocated_bytes", measured.allocated_peak()},
                           {"measured_reserved_bytes", measured.reserved_peak()}});
  }
  return {{"strategy", plan_.judged().name()},
          {"predicted_seconds", plan_.judged().iteration_seconds()},
          {"measured_seconds", measured_seconds()},
          {"lower_bound_seconds", plan_.lower_bound_seconds()},
          {"estimated_share", plan_.judged().estimated_share()},
          {"seconds", seconds_},
          {"losses", losses_},
          {"memory", memory},
          {"predicted_peak_memory_bytes", predicted_peak},
          {"measured_peak_memory_bytes", measured_peak},
          {"saved", saved_}};
}

std::string run_table(const std::vector<Trained>& all) {
  const auto even =
      std::find_if(all.begin(), all.end(), [](const Trained& run) { return run.plan().judged().name() == "ev-ar"; });
  const Trained& reference = even == all.end() ? all.front() : *even;
  TextTable table({"strategy", "> predicted", "> measured", "> error",
                   "> speed-up over " + reference.plan().judged().name(), "> first loss", "> last loss"});
  const auto number = [](const char* format, double value) {
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), format, value);
    return std::string(buffer.data());
  };
  for (const Trained& run : all) {
    const double predicted = run.plan().judged().iteration_seconds();
    const double measured = run.measured_seconds();
    table.add({run.plan().judged().name(), to_string(Seconds(predicted)), to_string(Seconds(measured)),
               number("%+.1f %%", 100 * (predicted / measured - 1)),
               number("%.2f", reference.measured_seconds() / measured), number("%.4f", run.losses().front()),
               number("%.4f", run.losses().back())});
  }
  return table.to_string();
}

}  // namespace motley
