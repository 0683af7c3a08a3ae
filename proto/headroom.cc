#include "proto/headroom.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"

namespace motley {

Bytes Headroom::of(Bytes memory) const {
  const auto part = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(memory.value)));
  return std::min(memory, std::max(bytes, Bytes(part)));
}

Headroom parse_headroom(std::string_view text) {
  if (!text.ends_with('%')) {
    try {
      return {.bytes = parse_bytes(text)};
    } catch (const Error& error) {
      throw Error(ErrorKind::kInvalidInput,
                  std::string(error.what()) + "; or a share of each device's memory, as in 10%");
    }
  }
  double percent = 0;
  const char* const sign = text.data() + text.size() - 1;
  auto [rest, failure] = std::from_chars(text.data(), sign, percent);
  while (rest != sign && *rest == ' ') ++rest;
  if (failure != std::errc{} || rest != sign || !(percent >= 0 && percent < 100)) {
    throw Error(ErrorKind::kInvalidInput, "\"" + std::string(text) +
                                              "\" is no share of each device's memory to leave free: write a number "
                                              "from 0% to below 100%, or a size, as in 1GiB");
  }
  constexpr double kPercent = 100;
  return {.share = percent / kPercent, .bytes = {}};
}

}  // namespace motley
