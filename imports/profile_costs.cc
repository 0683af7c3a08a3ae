#include "imports/profile_costs.h"

#include <algorithm>

#include "base/error.h"
#include "imports/layers.h"

namespace motley {
namespace {

void never_fall(std::vector<LayerTimes>& times) {
  for (std::size_t i = times.size(); i-- > 1;) {
    LayerTimes& less = times[i - 1];
    less.forward = std::min(less.forward, times[i].forward);
    less.backward = std::min(less.backward, times[i].backward);
    less.update = std::min(less.update, times[i].update);
  }
}

Seconds time_at(const std::vector<LayerTimes>& times, Seconds LayerTimes::*part, std::int64_t samples) {
  if (samples <= times.front().samples) return times.front().*part;
  if (times.size() == 1) {
    return times[0].*part * (static_cast<double>(samples) / static_cast<double>(times[0].samples));
  }
  const auto above = std::ranges::find_if(times.begin() + 1, times.end() - 1,
                                          [&](const LayerTimes& each) { return each.samples >= samples; });
  const LayerTimes& below = *(above - 1);
  const double share =
      static_cast<double>(samples - below.samples) / static_cast<double>(above->samples - below.samples);
  return below.*part + share * ((*above).*part - below.*part);
}

}  // namespace

ProfileCosts::ProfileCosts(const Graph& graph, std::vector<ImportedDevice> kinds, std::vector<std::int32_t> kind_of)
    : places_(graph.ops.size()), kinds_(std::move(kinds)), kind_of_(std::move(kind_of)) {
  for (ImportedDevice& kind : kinds_) {
    for (LayerCost& layer : kind.layers) never_fall(layer.times);
  }
  std::vector<bool> timed(graph.groups.size());  // by layer: a backward op has the time of both
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    Place& place = places_[static_cast<std::size_t>(op)];
    place.layer = layer_of(graph, op);
    if (place.layer == kNone) continue;
    switch (graph.ops[static_cast<std::size_t>(op)].kind) {
      case OpKind::kForward:
        place.part = Part::kForward;
        break;
      case OpKind::kInputGradient:
      case OpKind::kWeightGradient:
        if (!timed[static_cast<std::size_t>(place.layer)]) place.part = Part::kBackward;
        timed[static_cast<std::size_t>(place.layer)] = true;
        break;
      case OpKind::kUpdate:
        place.part = Part::kUpdate;
        break;
      case OpKind::kGradientSum:
        break;
    }
  }
}

OpCost ProfileCosts::op(OpId op, DeviceIndex device, std::int64_t batch) const {
  const Place& place = places_[static_cast<std::size_t>(op)];
  OpCost cost;
  cost.measured = true;
  if (place.part == Part::kNothing) return cost;
  const ImportedDevice& kind_of_device = kind(device);
  const LayerCost& layer = kind_of_device.layers[static_cast<std::size_t>(place.layer)];
  MOTLEY_CHECK(!layer.times.empty(), "layer " + std::to_string(place.layer) + " has no times");
  const bool within = batch >= layer.times.front().samples && batch <= layer.times.back().samples;
  cost.measured = within && !kind_of_device.estimated;
  switch (place.part) {
    case Part::kForward:
      cost.time = time_at(layer.times, &LayerTimes::forward, batch);
      cost.kept = layer.memory.kept * batch;
      cost.workspace = layer.memory.workspace * batch;
      break;
    case Part::kBackward:
      cost.time = time_at(layer.times, &LayerTimes::backward, batch);
      cost.workspace = layer.memory.workspace * batch;
      break;
    case Part::kUpdate:
      cost.time = layer.times.front().update;
      cost.measured = !kind_of_device.estimated;
      break;
    case Part::kNothing:
      break;
  }
  return cost;
}

}  // namespace motley
