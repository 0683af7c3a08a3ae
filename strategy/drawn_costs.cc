#include "strategy/drawn_costs.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace motley {
namespace {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Above 0, below 1.
double uniform(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

}  // namespace

// Box, Muller: A note on the generation of random normal deviates, 1958.
double standard_normal(std::uint64_t seed, std::uint64_t draw, std::uint64_t device) {
  const std::uint64_t bits = mixed(mixed(mixed(seed) ^ draw) ^ device);
  return std::sqrt(-2 * std::log(uniform(bits))) * std::cos(2 * std::numbers::pi * uniform(mixed(bits)));
}

OpCost DrawnCosts::op(OpId op, DeviceIndex device, std::int64_t batch) const {
  constexpr double kDeviations = 1.4826;
  constexpr double kLeast = 0.1;
  OpCost cost = costs_.op(op, device, batch);
  const Seconds deviation = cost.measured ? cost.spread * kDeviations : cost.time * estimated_;
  cost.time = std::max(cost.time * kLeast, cost.time + luck_[device] * deviation);
  return cost;
}

}  // namespace motley
