#pragma once

// What users demand of a strategy: which devices may work on which op groups.

#include <string>
#include <vector>

#include "compiler/strategy.h"

namespace motley {

// Thread-safe when const.
class Pins {
 public:
  Pins() = default;  // all may work on all
  // `pinned`: "GROUPS=WHERE,..." each, where GROUPS is an op group's name or a pattern with * and ?, which also meets
  // the path of a module of one of its ops ("transformer.h.0.*"), and WHERE a device or a node: these alone may work on
  // the groups, whichever of them do. `without`: devices and nodes that work on nothing. Throws Error(kInvalidInput)
  // for a pattern that meets no group, a WHERE that is not there, and a group that is left without a device.
  Pins(const Graph& graph, const Cluster& cluster, const std::vector<std::string>& pinned,
       const std::vector<std::string>& without);

  bool may(GroupId group, DeviceIndex device) const {
    return allowed_.empty() || allowed_[static_cast<std::size_t>(group)][static_cast<std::size_t>(device)] != 0;
  }
  bool may(DeviceIndex device) const;  // ... on any group
  bool obeyed_by(const Strategy& strategy) const;
  // The same but for devices that may not: their samples go to the others of the group in proportion, or, where it has
  // none, to all that may, evenly; to so many as get one of the `batch` samples in each micro-batch.
  Strategy obeying(Strategy strategy, std::int64_t batch) const;

 private:
  std::vector<std::vector<char>> allowed_;  // by group, then device; empty: all
};

}  // namespace motley
