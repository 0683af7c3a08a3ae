#pragma once

// Quantities as types, so that seconds are never added to bytes. Each is a number in its base unit, made explicitly:
// Seconds{0.5}, Bytes{1024}. Strings such as "25Gbps" or "16GiB" are parsed once, at the edge; unknown units are
// refused.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace motley {

template <class Tag, class Number>
struct Quantity {
  Number value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Number number) : value(number) {}

  constexpr auto operator<=>(const Quantity&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
  constexpr Quantity operator-() const { return Quantity(-value); }
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Number factor) { return Quantity(a.value * factor); }
  friend constexpr Quantity operator*(Number factor, Quantity a) { return Quantity(a.value * factor); }
  friend constexpr Quantity operator/(Quantity a, Number divisor) { return Quantity(a.value / divisor); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Seconds = Quantity<struct SecondsTag, double>;
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using Flops = Quantity<struct FlopsTag, double>;  // a count of floating-point operations
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return Seconds(static_cast<double>(bytes.value) / rate.value);
}
constexpr Seconds operator/(Flops flops, FlopsPerSecond rate) { return Seconds(flops.value / rate.value); }

// Each throws Error(kInvalidInput) that names the text and the units that are known. SI prefixes are powers of 1000,
// "Ki", "Mi", "Gi", "Ti" powers of 1024; "bps" are bits, "B/s" bytes per second. A bare number is refused but for "0".
Seconds parse_seconds(std::string_view text);                  // "20us", "1.5ms", "2s", "10min"
Bytes parse_bytes(std::string_view text);                      // "512B", "16GiB", "25MB"
BytesPerSecond parse_bytes_per_second(std::string_view text);  // "25Gbps", "200Mbps", "12GB/s", "900GiB/s"
FlopsPerSecond parse_flops_per_second(std::string_view text);  // "15.7TFLOPS", "312TFLOP/s"

// For people: three significant digits and a fitting unit ("1.24 ms", "16.0 GiB", "25.0 Gbps", "15.7 TFLOP/s").
std::string to_string(Seconds);
std::string to_string(Bytes);
std::string to_string(BytesPerSecond);
std::string to_string(Flops);
std::string to_string(FlopsPerSecond);

}  // namespace motley
