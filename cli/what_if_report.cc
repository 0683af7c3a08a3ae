#include "cli/what_if_report.h"

#include <array>
#include <cstdio>

#include "cli/text_table.h"

namespace motley {
namespace {

std::string rounded(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), value < 1000 ? "%.3g" : "%.0f", value);
  return buffer.data();
}

std::string exact(double value) { return nlohmann::json(value).dump(); }

// RFC 4180.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string what_if_table(const WhatIf& sweep) {
  std::vector<std::string> headings = sweep.axes;
  for (const char* heading : {"> devices", "strategy", "> per iteration", "> samples/s", "> fullest device",
                              "> of its memory", "> estimated"}) {
    headings.emplace_back(heading);
  }
  TextTable table(headings);
  std::string reasons;
  for (const Outcome& outcome : sweep.outcomes) {
    std::vector<std::string> row = outcome.values;
    const bool simulated = outcome.iteration.value > 0;
    row.push_back(outcome.devices > 0 ? std::to_string(outcome.devices) : "-");
    row.push_back(outcome.strategy.empty() ? "-" : outcome.strategy);
    row.push_back(simulated ? to_string(outcome.iteration) : "-");
    row.push_back(outcome.feasible() ? rounded(outcome.samples_per_second()) : "does not fit");
    row.push_back(simulated ? outcome.fullest + " " + to_string(outcome.peak) : "-");
    row.push_back(simulated ? percent(outcome.peak / outcome.capacity) : "-");
    row.push_back(simulated ? percent(outcome.estimated_share) : "-");
    table.add(row);
    if (outcome.feasible()) continue;
    std::string name;
    for (const std::string& value : outcome.values) name += (name.empty() ? "" : ", ") + value;
    reasons += (name.empty() ? "" : name + ": ") + outcome.reasons.front();
    if (outcome.reasons.size() > 1) reasons += " (and " + std::to_string(outcome.reasons.size() - 1) + " more)";
    reasons += "\n";
  }
  return table.to_string() + reasons;
}

std::string what_if_csv(const WhatIf& sweep) {
  std::string text;
  for (const std::string& axis : sweep.axes) text += csv_cell(axis) + ",";
  text +=
      "batch,devices,strategy,fits,iteration_seconds,samples_per_second,fullest_device,peak_memory_bytes,"
      "memory_bytes,estimated_share\n";
  for (const Outcome& outcome : sweep.outcomes) {
    const bool simulated = outcome.iteration.value > 0;
    for (const std::string& value : outcome.values) text += csv_cell(value) + ",";
    text += std::to_string(outcome.batch) + "," + std::to_string(outcome.devices) + "," + csv_cell(outcome.strategy);
    text += outcome.feasible() ? ",true," : ",false,";
    if (simulated) text += exact(outcome.iteration.value);
    text += ",";
    if (outcome.feasible()) text += exact(outcome.samples_per_second());
    text += "," + csv_cell(outcome.fullest) + ",";
    if (simulated) {
      text += std::to_string(outcome.peak.value) + "," + std::to_string(outcome.capacity.value) + "," +
              exact(outcome.estimated_share);
    } else {
      text += ",,";
    }
    text += "\n";
  }
  return text;
}

nlohmann::json to_json(const WhatIf& sweep) {
  nlohmann::json json{{"axes", sweep.axes}, {"outcomes", nlohmann::json::array()}};
  for (const Outcome& outcome : sweep.outcomes) {
    nlohmann::json row{{"values", outcome.values},       {"batch", outcome.batch},
                       {"devices", outcome.devices},     {"strategy", outcome.strategy},
                       {"feasible", outcome.feasible()}, {"reasons", outcome.reasons},
                       {"iteration_seconds", nullptr},   {"samples_per_second", outcome.samples_per_second()}};
    if (outcome.iteration.value > 0) {
      row["iteration_seconds"] = outcome.iteration.value;
      row["estimated_share"] = outcome.estimated_share;
      row["fullest"] = {{"device", outcome.fullest},
                        {"peak_memory_bytes", outcome.peak.value},
                        {"memory_bytes", outcome.capacity.value}};
    }
    json["outcomes"].push_back(std::move(row));
  }
  return json;
}

}  // namespace motley
