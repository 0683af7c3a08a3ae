#pragma once

// What a sweep of what-ifs found, as a table for people, as CSV and as JSON (docs/what-if.md, docs/json.md).

#include <nlohmann/json.hpp>
#include <string>

#include "strategy/what_if.h"

namespace motley {

// `wanted`: the samples per second for which the cheapest scenario is told; 0: none.
std::string what_if_table(const WhatIf& sweep, double wanted);
// One line of headings and one per scenario; numbers in seconds, bytes and samples per second.
std::string what_if_csv(const WhatIf& sweep);
nlohmann::json to_json(const WhatIf& sweep, double wanted);

}  // namespace motley
