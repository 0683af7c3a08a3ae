#pragma once

// What a job shall leave free of each device's memory: for what a prediction may be wrong by, or for others.

#include <string_view>

#include "base/units.h"

namespace motley {

struct Headroom {    // the larger of
  double share = 0;  // of the device's memory, from 0 to below 1
  Bytes bytes;

  Bytes of(Bytes memory) const;  // rounded up to a byte; at most all of it
  bool operator==(const Headroom&) const = default;
};

// "10%" of each device's memory, "1GiB" of each, "0". Throws Error(kInvalidInput) that says what to write instead.
Headroom parse_headroom(std::string_view text);

}  // namespace motley
