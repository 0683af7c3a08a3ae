#pragma once

// The curve of a training: a CSV file, one row per report (docs/policy.md).

#include <filesystem>

#include "strategy/policy/training.h"

namespace motley {

// With a header line when the file is new. Throws Error(kUnavailable) when it cannot be written.
void append_metrics(const std::filesystem::path& path, const PolicyMetrics& metrics);

}  // namespace motley
