#pragma once

// Where each group's replicas are and which samples of a micro-batch they have.

#include <algorithm>
#include <cstdint>
#include <map>
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

// Throws Error(kInvalidInput) when the strategy is for another graph or cluster, or makes no sense.
void check_fit(const CompilerTables& tables, const Strategy& strategy);

class Placement {
 public:
  // Of a micro-batch of `samples`, the first of which is `begin` of the whole batch. The strategy fits (check_fit).
  static std::variant<Placement, NotCompilable> make(const CompilerTables& tables, const Strategy& strategy,
                                                     std::int64_t begin, std::int64_t samples);
  // The same of another micro-batch, as large.
  Placement moved(std::int64_t samples) const;

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
  // Keeps one replica of those that would run equal programs in equal time: see Folding::kTwins. At least two remain,
  // so that they still meet.
  void fold(const CompilerTables& tables, const Strategy& strategy);
  // Whom the replicas stand for, ascending; empty when for themselves.
  const std::vector<DeviceIndex>& everyone() const { return everyone_; }
  std::span<const DeviceIndex> twins(DeviceIndex device) const;

  // Devices that have a replica of any group are numbered through, ascending: their seats.
  std::int32_t seats() const { return seats_; }
  std::int32_t seat(DeviceIndex device) const { return seat_[static_cast<std::size_t>(device)]; }

  bool same(GroupId a, GroupId b) const {
    return slots_[static_cast<std::size_t>(a)].first == slots_[static_cast<std::size_t>(b)].first;
  }

 private:
  void take_seats(DeviceIndex devices);
  // Whether a collective over all replicas delays the compute of each by the same: it delays none, or it is a ring, as
  // where there are CPUs (simulator/collective.h), each of whose members sends and receives as much. A tree's do not.
  bool members_work_alike(const CompilerTables& tables) const;

  struct Slot {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };
  std::vector<Replica> replicas_;  // equal lists stand once
  std::vector<Slot> slots_;        // by group
  std::vector<DeviceIndex> everyone_;
  std::map<DeviceIndex, std::vector<DeviceIndex>> twins_;
  std::int32_t seats_ = 0;
  std::vector<std::int32_t> seat_;  // by device; kNone
};

}  // namespace motley
