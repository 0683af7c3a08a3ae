#include "imports/validate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "imports/sailor.h"
#include "strategy/evaluate.h"

namespace motley {
namespace {

std::filesystem::path profiles_for(const std::filesystem::path& folder) {
  std::filesystem::path at = std::filesystem::absolute(folder).lexically_normal();
  while (!std::filesystem::exists(at / "llm_info.json")) {
    if (at == at.parent_path()) {
      throw Error(ErrorKind::kNotFound, folder.string() +
                                            ": neither it nor a folder above it has llm_info.json and the other "
                                            "profiles (docs/validate.md)");
    }
    at = at.parent_path();
  }
  return at;
}

std::vector<std::filesystem::path> plans_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> plans;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("plan_config") && name.ends_with(".json")) plans.push_back(entry.path());
  }
  if (plans.empty()) {
    throw Error(ErrorKind::kNotFound, folder.string() + ": there is no plan_config_*.json in it or below");
  }
  std::sort(plans.begin(), plans.end());
  return plans;
}

ValidatedPlan predicted(const SailorProfiles& profiles, const std::filesystem::path& path) {
  ValidatedPlan result;
  try {
    const SailorPlan plan = read_sailor_plan(path);
    result.measured_seconds = plan.seconds;
    result.measured_memory = plan.memory;
    const ImportedJob job = job_of(profiles, plan);
    const Evaluation evaluation = Evaluator(job.graph, job.cluster, *job.costs, job.batch).evaluate(job.strategy);
    if (evaluation.not_compilable) {
      result.not_predicted = *evaluation.not_compilable;
      return result;
    }
    result.seconds = evaluation.simulation.iteration;
    for (const DeviceMemory& device : evaluation.simulation.memory)
      result.memory = std::max(result.memory, device.peak);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    result.not_predicted = error.what();
  }
  return result;
}

template <class Number>
std::optional<double> error_of(const ValidatedPlan& plan, Number predicted, const std::optional<Number>& measured) {
  if (!plan.not_predicted.empty() || !measured || measured->value <= 0) return std::nullopt;
  return predicted / *measured - 1;
}

}  // namespace

std::optional<double> ValidatedPlan::time_error() const { return error_of(*this, seconds, measured_seconds); }
std::optional<double> ValidatedPlan::memory_error() const { return error_of(*this, memory, measured_memory); }

ErrorSummary summary_of(const std::vector<std::optional<double>>& errors) {
  ErrorSummary summary;
  for (const std::optional<double>& error : errors) {
    if (!error) continue;
    ++summary.plans;
    summary.mean += std::abs(*error);
    summary.worst = std::max(summary.worst, std::abs(*error));
    summary.most_under = std::max(summary.most_under, -*error);
  }
  if (summary.plans > 0) summary.mean /= static_cast<double>(summary.plans);
  return summary;
}

std::vector<ValidatedPlan> validate(const std::filesystem::path& folder, const std::string& model) {
  const std::vector<std::filesystem::path> paths = plans_in(folder);
  const SailorProfiles profiles(profiles_for(folder), model);
  std::vector<ValidatedPlan> plans;
  for (const std::filesystem::path& path : paths) {
    plans.push_back(predicted(profiles, path));
    plans.back().name = std::filesystem::relative(path, folder).string();
  }
  return plans;
}

}  // namespace motley
