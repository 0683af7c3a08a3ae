#pragma once

// Costs of whole layers as others' profiles give them. A profile has a layer's forward, backward and update time at
// some numbers of samples. Between these a time is linear, above them it goes on as between the last two, below them it
// stays. A time never falls with more samples: where a profile says so, that is noise of layers that are bound by
// launches, and the lesser time counts for both. What the profile does not tell takes no time: passes over memory (the
// times of the layers contain them) and the loss.

#include <vector>

#include "graph/graph.h"
#include "profiler/cost_model.h"

namespace motley {

struct LayerTimes {
  std::int64_t samples = 0;
  Seconds forward;
  Seconds backward;  // for inputs and parameters
  Seconds update;
};

struct LayerMemory {  // per sample
  Bytes kept;         // from forward to backward, beside inputs and output
  Bytes workspace;    // while it runs, either way
};

struct LayerCost {
  std::vector<LayerTimes> times;  // ascending samples, one at least
  LayerMemory memory;
};

// A kind of device.
struct ImportedDevice {
  std::vector<LayerCost> layers;  // by layer; those that never run on it may have no times
  MessageCosts messages;
  Bytes context;
  AllocatorKind allocator = AllocatorKind::kNone;
  bool estimated = false;  // its times are those of another kind, scaled
};

class ProfileCosts : public CostModel {
 public:
  // Of a graph of graph_of_layers. `kind_of`: by device of the cluster, its place in `kinds`.
  ProfileCosts(const Graph& graph, std::vector<ImportedDevice> kinds, std::vector<std::int32_t> kind_of);

  OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override;
  Seconds memory_pass(DeviceIndex, Bytes) const override { return {}; }
  MessageCosts messages(DeviceIndex device) const override { return kind(device).messages; }
  Bytes context(DeviceIndex device) const override { return kind(device).context; }
  AllocatorKind allocator(DeviceIndex device) const override { return kind(device).allocator; }
  std::int32_t cost_class(DeviceIndex device) const override { return kind_of_[static_cast<std::size_t>(device)]; }

 private:
  const ImportedDevice& kind(DeviceIndex device) const {
    return kinds_[static_cast<std::size_t>(kind_of_[static_cast<std::size_t>(device)])];
  }
  enum class Part : std::uint8_t { kNothing, kForward, kBackward, kUpdate };
  struct Place {
    std::int32_t layer = kNone;
    Part part = Part::kNothing;
  };

  std::vector<Place> places_;  // by op
  std::vector<ImportedDevice> kinds_;
  std::vector<std::int32_t> kind_of_;
};

}  // namespace motley
