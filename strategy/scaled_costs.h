#pragma once

// Another cost model's figures on devices that are faster or slower than it knows them. Thread-safe when that one is.

#include <map>
#include <utility>
#include <vector>

#include "profiler/cost_model.h"

namespace motley {

class ScaledCosts : public CostModel {
 public:
  // All times of device d are divided by speeds[d], and messages' overheads by `messages` as well; but for their
  // pauses, which the scheduler makes. `costs` must outlive this.
  ScaledCosts(const CostModel& costs, std::vector<double> speeds, double messages = 1)
      : costs_(costs), speeds_(std::move(speeds)), messages_(messages), classes_(classes(costs, speeds_)) {}

  OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override {
    OpCost cost = costs_.op(op, device, batch);
    cost.time = cost.time / speeds_[device];
    cost.spread = cost.spread / speeds_[device];
    return cost;
  }
  Seconds memory_pass(DeviceIndex device, Bytes bytes) const override {
    return costs_.memory_pass(device, bytes) / speeds_[device];
  }
  Seconds dispatch(DeviceIndex device) const override { return costs_.dispatch(device) / speeds_[device]; }
  MessageCosts messages(DeviceIndex device) const override {
    const MessageCosts costs = costs_.messages(device);
    const double speed = speeds_[device];
    return {costs.overhead / (speed * messages_), costs.work / (speed * messages_), costs.work_per_byte / speed,
            costs.pause, costs.in_line};
  }
  Bytes context(DeviceIndex device) const override { return costs_.context(device); }
  AllocatorKind allocator(DeviceIndex device) const override { return costs_.allocator(device); }
  std::int32_t cost_class(DeviceIndex device) const override { return classes_[device]; }

 private:
  static std::vector<std::int32_t> classes(const CostModel& costs, const std::vector<double>& speeds) {
    std::map<std::pair<std::int32_t, double>, std::int32_t> known;
    std::vector<std::int32_t> classes;
    for (std::size_t d = 0; d < speeds.size(); ++d) {
      const std::pair key(costs.cost_class(static_cast<DeviceIndex>(d)), speeds[d]);
      classes.push_back(known.try_emplace(key, static_cast<std::int32_t>(known.size())).first->second);
    }
    return classes;
  }

  const CostModel& costs_;
  const std::vector<double> speeds_;
  const double messages_;
  const std::vector<std::int32_t> classes_;  // by device
};

}  // namespace motley
