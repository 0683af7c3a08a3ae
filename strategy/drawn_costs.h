#pragma once

// What one iteration happens to cost, drawn from what costs are known to spread: for simulating stragglers.
//
// A device has good or bad luck for a whole iteration: its clock, its temperature and its neighbours slow all that it
// does, while the chance of single ops evens out over the hundreds of an iteration. Luck z is a standard normal number
// per device and draw, and an op takes t + z s, at least t / 10, where t is its median and s its standard deviation:
// 1.4826 times the median absolute deviation where that was measured (the ratio of the two for normal numbers), else
// a share of t that the caller names. Transfers and memory passes take what they do.
//
// The numbers are a function of seed, draw and device alone: the same on any machine, with any number of threads, and
// for all scenarios that share them.

#include <cstdint>
#include <utility>
#include <vector>

#include "profiler/cost_model.h"

namespace motley {

// Thread-safe.
double standard_normal(std::uint64_t seed, std::uint64_t draw, std::uint64_t device);

class DrawnCosts : public CostModel {
 public:
  // `luck`: z, by device. `estimated`: s over t of ops that nobody measured. `costs` must outlive this.
  DrawnCosts(const CostModel& costs, std::vector<double> luck, double estimated)
      : costs_(costs), luck_(std::move(luck)), estimated_(estimated) {}

  OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override;
  Seconds memory_pass(DeviceIndex device, Bytes bytes) const override { return costs_.memory_pass(device, bytes); }
  Seconds dispatch(DeviceIndex device) const override { return costs_.dispatch(device); }
  MessageCosts messages(DeviceIndex device) const override { return costs_.messages(device); }
  Bytes context(DeviceIndex device) const override { return costs_.context(device); }
  AllocatorKind allocator(DeviceIndex device) const override { return costs_.allocator(device); }

 private:
  const CostModel& costs_;
  const std::vector<double> luck_;
  const double estimated_;
};

}  // namespace motley
