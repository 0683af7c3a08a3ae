#include "simulator/timeline.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace motley {

proto::Timeline merge(const std::vector<proto::Timeline>& parts) {
  proto::Timeline merged;
  if (!parts.empty()) merged = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const proto::Timeline& part = parts[i];
    if (part.graph_fingerprint() != merged.graph_fingerprint() || part.strategy() != merged.strategy() ||
        part.batch() != merged.batch()) {
      throw Error(ErrorKind::kInvalidInput, "cannot merge a timeline of strategy \"" + part.strategy() + "\", batch " +
                                                std::to_string(part.batch()) + ", with one of \"" + merged.strategy() +
                                                "\", batch " + std::to_string(merged.batch()) +
                                                ": they must come from one deployment");
    }
    merged.mutable_events()->MergeFrom(part.events());
  }
  const auto key = [](const proto::TimelineEvent& e) {
    return std::tuple(e.iteration(), e.start(), e.device(), e.instruction());
  };
  std::sort(merged.mutable_events()->begin(), merged.mutable_events()->end(),
            [&](const proto::TimelineEvent& a, const proto::TimelineEvent& b) { return key(a) < key(b); });
  const auto twice = std::adjacent_find(
      merged.events().begin(), merged.events().end(),
      [&](const proto::TimelineEvent& a, const proto::TimelineEvent& b) { return key(a) == key(b); });
  if (twice != merged.events().end()) {
    throw Error(ErrorKind::kInvalidInput, "two timelines hold instruction " + std::to_string(twice->instruction()) +
                                              " of device " + std::to_string(twice->device()) + " in iteration " +
                                              std::to_string(twice->iteration()) + ": give each worker's once");
  }
  return merged;
}

std::int32_t typical_iteration(const proto::Timeline& timeline) {
  std::map<std::int32_t, double> durations;
  for (const proto::TimelineEvent& event : timeline.events()) {
    double& duration = durations[event.iteration()];
    duration = std::max(duration, event.end());
  }
  if (durations.empty())
    throw Error(ErrorKind::kInvalidInput, "the timeline has no events: run at least one iteration");
  if (durations.size() > 1) durations.erase(durations.begin());
  std::vector<std::pair<double, std::int32_t>> order;
  order.reserve(durations.size());
  for (const auto& [iteration, duration] : durations) order.emplace_back(duration, iteration);
  std::sort(order.begin(), order.end());
  return order[(order.size() - 1) / 2].second;
}

std::vector<Event> events_of(const proto::Timeline& timeline, std::int32_t iteration) {
  std::vector<Event> events;
  for (const proto::TimelineEvent& event : timeline.events()) {
    if (event.iteration() != iteration) continue;
    events.push_back({event.device(), event.instruction(), Seconds(event.start()), Seconds(event.end())});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.start.value, a.device, a.instruction) < std::tuple(b.start.value, b.device, b.instruction);
  });
  return events;
}

}  // namespace motley
