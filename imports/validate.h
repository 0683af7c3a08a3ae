#pragma once

// Predictions of plans that somebody ran, beside what they measured.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace motley {

struct ValidatedPlan {
  std::string name;           // its file, from the folder on
  std::string not_predicted;  // why; else empty
  Seconds seconds;            // of an iteration
  Bytes memory;               // the peak on the fullest GPU
  std::optional<Seconds> measured_seconds;
  std::optional<Bytes> measured_memory;

  // Predicted over measured less 1; nothing where there is nothing to compare.
  std::optional<double> time_error() const;
  std::optional<double> memory_error() const;
};

struct ErrorSummary {
  std::size_t plans = 0;  // that were compared
  double mean = 0;        // of the errors' sizes
  double worst = 0;       // the largest size
  double most_under = 0;  // by how much the measurement was under-predicted at most; 0 when it never was
};
ErrorSummary summary_of(const std::vector<std::optional<double>>& errors);

// Sailor's plan_config_*.json below `folder`, by name. Profiles are those of the folder itself, or of the nearest above
// it that has llm_info.json. Throws Error(kNotFound) when there are no plans or no profiles, and as the readers do. A
// plan that is beyond them is listed with the reason.
std::vector<ValidatedPlan> validate(const std::filesystem::path& folder, const std::string& model);

}  // namespace motley
