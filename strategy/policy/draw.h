#pragma once

// Random choices that are the same on every machine: the standard library's distributions may differ.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>

namespace motley {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::uint64_t word() { return random_(); }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }  // [0, 1)
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  // Every order of magnitude is as likely.
  double log_between(double least, double most) { return least * std::pow(most / least, uniform()); }
  bool chance(double probability) { return uniform() < probability; }
  template <class Value>
  Value of(std::initializer_list<Value> values) {
    return values.begin()[random_() % values.size()];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace motley
