#include "imports/validate.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/text_table.h"

namespace motley {
namespace {

using Errors = std::vector<std::optional<double>>;

template <class Value>
std::string cell(const std::optional<Value>& value) {
  return value ? to_string(*value) : "";
}
std::string cell(const std::optional<double>& error) { return error ? signed_percent(*error) : ""; }

nlohmann::json number(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

nlohmann::json to_json(const ErrorSummary& summary) {
  return {
      {"plans", summary.plans}, {"mean", summary.mean}, {"worst", summary.worst}, {"most_under", summary.most_under}};
}

std::string sentence(const char* what, const ErrorSummary& summary) {
  if (summary.plans == 0) return "";
  return std::string(what) + ": " + percent(summary.mean) + " off in the mean of " + std::to_string(summary.plans) +
         " plans, " + percent(summary.worst) + " at worst, under-predicted by at most " + percent(summary.most_under) +
         "\n";
}

void print(const std::vector<ValidatedPlan>& plans, const ErrorSummary& time, const ErrorSummary& memory) {
  TextTable table({"plan", "> predicted", "> measured", "> error", "> memory", "> measured", "> error"});
  std::string refused;
  for (const ValidatedPlan& plan : plans) {
    if (plan.not_predicted.empty()) {
      table.add({plan.name, to_string(plan.seconds), cell(plan.measured_seconds), cell(plan.time_error()),
                 to_string(plan.memory), cell(plan.measured_memory), cell(plan.memory_error())});
    } else {
      refused += plan.name + " is not predicted: " + plan.not_predicted + "\n";
    }
  }
  std::cout << table.to_string() << refused << sentence("time", time) << sentence("memory", memory);
}

void print_json(const std::vector<ValidatedPlan>& plans, const ErrorSummary& time, const ErrorSummary& memory) {
  nlohmann::json list = nlohmann::json::array();
  for (const ValidatedPlan& plan : plans) {
    nlohmann::json entry = {{"plan", plan.name}};
    if (plan.not_predicted.empty()) {
      entry["iteration_seconds"] = plan.seconds.value;
      entry["peak_memory_bytes"] = plan.memory.value;
    } else {
      entry["not_predicted"] = plan.not_predicted;
    }
    if (plan.measured_seconds) entry["measured_seconds"] = plan.measured_seconds->value;
    if (plan.measured_memory) entry["measured_memory_bytes"] = plan.measured_memory->value;
    entry["time_error"] = number(plan.time_error());
    entry["memory_error"] = number(plan.memory_error());
    list.push_back(std::move(entry));
  }
  std::cout << nlohmann::json{{"plans", list}, {"time", to_json(time)}, {"memory", to_json(memory)}}.dump(2) << "\n";
}

struct ValidateOptions {
  std::string folder;
  std::string model;
  bool json = false;
};

}  // namespace

void add_validate_command(CLI::App& app) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand("validate", "Predicts others' measured plans, beside what they measured.");
  command->footer("Example: motley validate sailor/measured\ndocs/validate.md says what is read.");
  command->add_option("FOLDER", options->folder, "the plans; it, or a folder above it, has the profiles")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--model", options->model,
                      "whose profiles; unless given, the one that the training config names");
  command->add_flag("--json", options->json, "print the result as JSON");
  command->callback([options] {
    const std::vector<ValidatedPlan> plans = validate(options->folder, options->model);
    Errors time_errors, memory_errors;
    for (const ValidatedPlan& plan : plans) {
      time_errors.push_back(plan.time_error());
      memory_errors.push_back(plan.memory_error());
    }
    const ErrorSummary time = summary_of(time_errors), memory = summary_of(memory_errors);
    (options->json ? print_json : print)(plans, time, memory);
  });
}

}  // namespace motley
