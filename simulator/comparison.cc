#include "simulator/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "simulator/critical_path.h"

namespace motley {

namespace {

constexpr double kRounding = 1e-12;  // seconds, of sums over a path

PathKind kind_of(const Graph& graph, const Instruction& instruction, const PathStep& step) {
  if (instruction.kind == InstructionKind::kAllReduce) return PathKind::kCollective;
  if (step.until == Edge::kBegin) return PathKind::kDispatch;
  switch (instruction.kind) {
    case InstructionKind::kSend:
      return PathKind::kSend;
    case InstructionKind::kReceive:
      return PathKind::kReceive;
    case InstructionKind::kCompute:
      break;
    default:
      return PathKind::kMemoryPass;
  }
  switch (graph.ops[instruction.op].kind) {
    case OpKind::kForward:
      return PathKind::kForward;
    case OpKind::kInputGradient:
      return PathKind::kInputGradient;
    case OpKind::kWeightGradient:
      return PathKind::kWeightGradient;
    case OpKind::kUpdate:
      return PathKind::kUpdate;
    case OpKind::kGradientSum:
      break;
  }
  return PathKind::kMemoryPass;
}

struct Side {
  Side(const Deployment& deployment, const Timeline& of)
      : timeline(deployment, of.events),
        path(timeline.critical_path()),
        iteration(of.iteration > Seconds(0) ? of.iteration : timeline.length()) {
    MOTLEY_CHECK(!path.empty(), "a deployment without instructions");
  }
  Seconds between() const { return iteration - (timeline.length() - path.front().to); }

  CausalTimeline timeline;
  std::vector<PathStep> path;
  Seconds iteration;
};

void add(Compared& sum, const Compared& more) {
  sum.predicted += more.predicted;
  sum.measured += more.measured;
}

}  // namespace

std::string to_string(PathKind kind) {
  static constexpr std::array<const char*, 10> kNames = {
      "forward", "input gradient", "weight gradient", "update",   "memory pass",
      "send",    "receive",        "all-reduce",      "dispatch", "between iterations"};
  return kNames[static_cast<std::size_t>(kind)];
}

Comparison compare(const Graph& graph, const Deployment& deployment, const Timeline& predicted,
                   const Timeline& measured) {
  const Side prediction(deployment, predicted), measurement(deployment, measured);
  Comparison result;
  result.iteration = {prediction.iteration, measurement.iteration};
  result.along_measured = measurement.iteration >= prediction.iteration;
  const Side& longer = result.along_measured ? measurement : prediction;
  const Side& shorter = result.along_measured ? prediction : measurement;
  const auto compared = [&](Seconds in_longer, Seconds in_shorter) {
    return result.along_measured ? Compared{in_shorter, in_longer} : Compared{in_longer, in_shorter};
  };

  const std::map<DeviceIndex, const Program*> programs = programs_by_device(deployment);
  const auto kind_of_step = [&](const PathStep& step) {
    return step.first ? PathKind::kBetween
                      : kind_of(graph, programs.at(step.device)->instructions[step.instruction], step);
  };
  std::map<PathKind, Comparison::Kind> kinds;
  std::map<DeviceIndex, Compared> devices;
  Seconds elsewhere = shorter.iteration;
  for (const PathStep& step : longer.path) {
    const Seconds here = step.first ? longer.between() : step.to - step.from;
    const Seconds there = step.first ? shorter.between() : shorter.timeline.duration(step);
    elsewhere -= there;
    if (here == Seconds(0) && there == Seconds(0)) continue;
    const PathKind kind = kind_of_step(step);
    const Compared time = compared(here, there);
    kinds[kind].steps += 1;
    add(kinds[kind].time, time);
    add(devices[step.device], time);
    result.instructions.push_back({step.device, step.instruction, kind, time});
  }
  result.elsewhere = compared(Seconds(0), std::abs(elsewhere.value) < kRounding ? Seconds(0) : elsewhere);
  for (const PathStep& step : longer.timeline.steps()) {
    add(kinds[kind_of_step(step)].everywhere, compared(step.to - step.from, shorter.timeline.duration(step)));
  }
  for (auto& [kind, sum] : kinds) {
    sum.kind = kind;
    result.kinds.push_back(sum);
  }
  for (const auto& [device, sum] : devices) result.devices.push_back({device, sum});
  std::stable_sort(result.instructions.begin(), result.instructions.end(), [](const auto& a, const auto& b) {
    return std::abs(a.time.error().value) > std::abs(b.time.error().value);
  });
  return result;
}

}  // namespace motley
