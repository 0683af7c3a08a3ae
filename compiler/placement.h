#pragma once

// Where each group's replicas are and which samples they have: a strategy at one batch size.

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "compiler/compiler.h"
#include "compiler/tables.h"

namespace motley {

struct Replica {
  DeviceIndex device = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t samples() const { return end - begin; }
  bool operator==(const Replica&) const = default;
};

class Placement {
 public:
  static std::variant<Placement, NotCompilable> make(const CompilerTables& tables, const Strategy& strategy,
                                                     std::int64_t batch);

  // Ascending by device and by samples.
  std::span<const Replica> replicas(GroupId group) const {
    const Slot& slot = slots_[static_cast<std::size_t>(group)];
    return {replicas_.data() + slot.first, static_cast<std::size_t>(slot.count)};
  }
  // The group's replica on that device; null when there is none.
  const Replica* on(GroupId group, DeviceIndex device) const {
    const auto all = replicas(group);
    const auto found = std::lower_bound(all.begin(), all.end(), device, [](const Replica& replica, DeviceIndex index) {
      return replica.device < index;
    });
    return found != all.end() && found->device == device ? &*found : nullptr;
  }
  bool same(GroupId a, GroupId b) const {
    return slots_[static_cast<std::size_t>(a)].first == slots_[static_cast<std::size_t>(b)].first;
  }

 private:
  struct Slot {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };
  std::vector<Replica> replicas_;  // equal lists stand once
  std::vector<Slot> slots_;        // by group
};

}  // namespace motley
