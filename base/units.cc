#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"

namespace motley {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;

constexpr std::array<Unit, 7> kSeconds{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}}};
constexpr std::array<Unit, 9> kBytes{{{"B", 1},
                                      {"kB", 1e3},
                                      {"MB", 1e6},
                                      {"GB", 1e9},
                                      {"TB", 1e12},
                                      {"KiB", kKi},
                                      {"MiB", kKi* kKi},
                                      {"GiB", kKi* kKi* kKi},
                                      {"TiB", kKi* kKi* kKi* kKi}}};
constexpr std::array<Unit, 13> kRates{{{"bps", 0.125},
                                       {"kbps", 125},
                                       {"Mbps", 125e3},
                                       {"Gbps", 125e6},
                                       {"Tbps", 125e9},
                                       {"B/s", 1},
                                       {"kB/s", 1e3},
                                       {"MB/s", 1e6},
                                       {"GB/s", 1e9},
                                       {"TB/s", 1e12},
                                       {"MiB/s", kKi* kKi},
                                       {"GiB/s", kKi* kKi* kKi},
                                       {"TiB/s", kKi* kKi* kKi* kKi}}};
constexpr std::array<Unit, 6> kFlopRates{
    {{"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}};

template <std::size_t n>
double parse(std::string_view text, const std::array<Unit, n>& units, const char* what) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view name(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  if (error == std::errc{} && std::isfinite(number) && number >= 0) {
    if (name.empty() && number == 0) return 0;
    for (const Unit& unit : units) {
      if (unit.name == name) return number * unit.factor;
    }
  }
  std::string message = "\"" + std::string(text) + "\" is no " + what + ": write a number and one of";
  for (const Unit& unit : units) message += " " + std::string(unit.name);
  throw Error(ErrorKind::kInvalidInput, message);
}

// The largest unit of `units` (ascending, without a space) that is not above the value.
template <std::size_t n>
std::string format(double value, const std::array<Unit, n>& units) {
  const Unit* unit = &units[0];
  for (const Unit& candidate : units) {
    if (std::abs(value) >= candidate.factor * 0.9995) unit = &candidate;
  }
  const double scaled = value / unit->factor;
  const double magnitude = std::abs(scaled);
  constexpr double kTooLong = 99999.5;  // to be read as digits
  const int decimals = magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;
  const char* form = magnitude < kTooLong ? "%.*f %s" : "%.*e %s";
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), form, magnitude < kTooLong ? decimals : 2, scaled,
                std::string(unit->name).c_str());
  return buffer.data();
}

}  // namespace

Seconds parse_seconds(std::string_view text) { return Seconds(parse(text, kSeconds, "duration")); }

Bytes parse_bytes(std::string_view text) {
  const double bytes = parse(text, kBytes, "size in bytes");
  if (bytes >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    throw Error(ErrorKind::kInvalidInput, "\"" + std::string(text) + "\" is more bytes than motley can count");
  }
  return Bytes(std::llround(bytes));
}

BytesPerSecond parse_bytes_per_second(std::string_view text) {
  return BytesPerSecond(parse(text, kRates, "bandwidth"));
}

FlopsPerSecond parse_flops_per_second(std::string_view text) {
  return FlopsPerSecond(parse(text, kFlopRates, "compute rate"));
}

std::string to_string(Seconds seconds) {
  static constexpr std::array<Unit, 4> kUnits{{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  return format(seconds.value, kUnits);
}

std::string to_string(Bytes bytes) {
  static constexpr std::array<Unit, 5> kUnits{
      {{"B", 1}, {"KiB", kKi}, {"MiB", kKi * kKi}, {"GiB", kKi * kKi * kKi}, {"TiB", kKi * kKi * kKi * kKi}}};
  return format(static_cast<double>(bytes.value), kUnits);
}

std::string to_string(BytesPerSecond rate) {
  static constexpr std::array<Unit, 4> kUnits{{{"kbps", 125}, {"Mbps", 125e3}, {"Gbps", 125e6}, {"Tbps", 125e9}}};
  return format(rate.value, kUnits);
}

std::string to_string(Flops flops) {
  static constexpr std::array<Unit, 5> kUnits{
      {{"FLOP", 1}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}}};
  return format(flops.value, kUnits);
}

std::string to_string(FlopsPerSecond rate) {
  static constexpr std::array<Unit, 4> kUnits{
      {{"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}};
  return format(rate.value, kUnits);
}

}  // namespace motley
