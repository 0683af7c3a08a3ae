#include "simulator/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/statistics.h"
#include "profiler/signature.h"

namespace motley {

namespace {

// By event.
std::vector<const Instruction*> instructions_of(const Deployment& deployment, const proto::Timeline& measured) {
  const std::map<DeviceIndex, const Program*> programs = programs_by_device(deployment);
  std::vector<const Instruction*> instructions;
  for (const proto::TimelineEvent& event : measured.events()) {
    const auto program = programs.find(event.device());
    if (program == programs.end() || event.instruction() < 0 ||
        event.instruction() >= static_cast<std::int32_t>(program->second->instructions.size())) {
      throw Error(ErrorKind::kInvalidInput,
                  "the measured timeline has instruction " + std::to_string(event.instruction()) + " of device " +
                      std::to_string(event.device()) + ", which the deployment lacks: it is of another plan");
    }
    instructions.push_back(&program->second->instructions[event.instruction()]);
  }
  return instructions;
}

// When each device communicated.
class Communication {
 public:
  Communication(const proto::Timeline& measured, const std::vector<const Instruction*>& instructions) {
    for (int i = 0; i < measured.events_size(); ++i) {
      const proto::TimelineEvent& event = measured.events(i);
      const Stream stream = stream_of(instructions[i]->kind);
      if (stream == Stream::kCompute) continue;
      // A receive spends most of its time waiting for something to arrive.
      const double start = stream == Stream::kReceive ? event.end() : event.start();
      spans_[{event.device(), event.iteration()}].emplace_back(start, event.end());
    }
    for (auto& [key, spans] : spans_) {
      std::sort(spans.begin(), spans.end());
      for (std::size_t i = 1; i < spans.size(); ++i) spans[i].second = std::max(spans[i].second, spans[i - 1].second);
    }
  }

  // Whether it fell into the time of `event`, on the same device.
  bool meets(const proto::TimelineEvent& event) const {
    const auto found = spans_.find({event.device(), event.iteration()});
    if (found == spans_.end()) return false;
    const auto later = std::upper_bound(found->second.begin(), found->second.end(), std::pair(event.end(), 0.0));
    return later != found->second.begin() && std::prev(later)->second > event.start();
  }

 private:
  // By device and iteration: starts, and the latest end of those that started till then; ascending.
  std::map<std::pair<DeviceIndex, std::int32_t>, std::vector<std::pair<double, double>>> spans_;
};

}  // namespace

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

std::map<DeviceIndex, std::vector<ProfiledOp>> op_times(const Graph& graph, const Deployment& deployment,
                                                        const proto::Timeline& measured) {
  const std::vector<const Instruction*> instructions = instructions_of(deployment, measured);
  const Communication communication(measured, instructions);
  const Signatures signatures = signatures_of(graph);
  std::map<std::tuple<DeviceIndex, std::int32_t, std::int64_t>, std::vector<double>> seconds;
  for (int i = 0; i < measured.events_size(); ++i) {
    const proto::TimelineEvent& event = measured.events(i);
    const Instruction& instruction = *instructions[i];
    const bool alone = event.work() > 0 || !communication.meets(event);
    if (instruction.kind != InstructionKind::kCompute || !alone) continue;
    const std::int32_t signature = signatures.of_op[instruction.op];
    const std::int64_t batch = signatures.distinct[signature].depends_on_batch ? instruction.batch : 0;
    seconds[{event.device(), signature, batch}].push_back(event.work() > 0 ? event.work()
                                                                           : event.end() - event.start());
  }
  std::map<DeviceIndex, std::vector<ProfiledOp>> result;
  std::int32_t last = kNone;
  for (auto& [key, times] : seconds) {
    const auto& [device, index, batch] = key;
    const Signature& signature = signatures.distinct[index];
    std::vector<ProfiledOp>& ops = result[device];
    if (ops.empty() || last != index) ops.push_back({signature.hash, signature.text, signature.dtype, {}});
    last = index;
    CurvePoint point;
    point.batch = batch;
    point.repeats = static_cast<std::int32_t>(times.size());
    point.time = Seconds(std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size()));
    for (double& time : times) time = std::abs(time - point.time.value);
    point.spread = Seconds(median(times));
    ops.back().points.push_back(point);
  }
  return result;
}

}  // namespace motley
