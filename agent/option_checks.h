#pragma once

// Checks of options, for CLI::Option::check. What they refuse is told in words: "-1 is no number of at least 0". No
// number may be NaN or infinite.

#include <CLI/CLI.hpp>

namespace motley {

CLI::Validator at_least(std::int64_t least);
CLI::Validator above_zero();
CLI::Validator fraction();  // 0 <= x < 1

// Samples in a batch: 1 to 2^24, so that sizes in bytes of any model that exists stay within 63 bits.
CLI::Validator batch_size();

// What a job leaves free of each device's memory (proto/headroom.h).
CLI::Validator headroom();

// HOST:PORT, the port from 0 to 65535. An IPv6 host stands in brackets.
CLI::Validator host_and_port();

}  // namespace motley
