#pragma once

// What Gloo's ring all-reduce (gloo/allreduce.cc) has allocated while it runs, beside the buffer that it reduces: two
// segments, into which it receives by turns. The buffer is cut into segments of at most 1 MiB, as many for each member,
// two at least. Apart, for whoever predicts memory. A pure function.

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace motley {

// `element`: of the dtype. 0 where nothing is sent: of fewer than two members, or no bytes.
constexpr Bytes gloo_scratch(Bytes bytes, std::size_t members, Bytes element) {
  if (members < 2) return Bytes(0);
  constexpr std::int64_t kMostPerSegment = std::int64_t{1} << 20;
  const auto n = static_cast<std::int64_t>(members);
  const auto parts = [](std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; };
  const std::int64_t segments = n * parts(std::max(parts(bytes.value, kMostPerSegment), 2 * n), n);
  return Bytes(2 * element.value * parts(parts(bytes.value, segments), element.value));
}

}  // namespace motley
