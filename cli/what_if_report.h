#pragma once

// What a sweep of what-ifs found, as a table for people, as CSV and as JSON (docs/what-if.md, docs/json.md).

#include <nlohmann/json.hpp>
#include <string>

#include "strategy/what_if.h"

namespace motley {

std::string what_if_table(const WhatIf& sweep);
// One line of headings and one per scenario; numbers in seconds, bytes and samples per second.
std::string what_if_csv(const WhatIf& sweep);
nlohmann::json to_json(const WhatIf& sweep);

}  // namespace motley
