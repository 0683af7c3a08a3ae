#include "cli/accuracy.h"

#include <algorithm>
#include <cmath>

#include "cli/text_table.h"
#include "simulator/trace.h"

namespace motley {
namespace {

constexpr std::size_t kTopInstructions = 10;

std::string signed_time(Seconds time) {
  if (time == Seconds(0)) return "0";
  return (time < Seconds(0) ? "-" : "+") + to_string(Seconds(std::abs(time.value)));
}

std::string name_of(const Comparison::OfInstruction& one, const Graph& graph, const Cluster& cluster,
                    const Deployment& deployment) {
  const auto program = std::find_if(deployment.programs.begin(), deployment.programs.end(),
                                    [&](const Program& program) { return program.device == one.device; });
  return instruction_name(graph, cluster, *program, program->instructions[one.instruction]);
}

nlohmann::json to_json(const Compared& time) {
  return {{"predicted_seconds", time.predicted.value}, {"measured_seconds", time.measured.value}};
}

}  // namespace

std::string accuracy_text(const Comparison& comparison, const Graph& graph, const Cluster& cluster,
                          const Deployment& deployment) {
  const Compared& whole = comparison.iteration;
  const auto time = [](Seconds seconds) { return seconds == Seconds(0) ? "0" : to_string(seconds); };
  const auto cells = [&](std::vector<std::string> row, const Compared& of) {
    row.insert(row.end(), {time(of.predicted), time(of.measured), signed_time(of.error())});
    row.push_back(whole.error() == Seconds(0) ? "-" : percent(of.error() / whole.error()));
    return row;
  };
  std::string text = "predicted " + to_string(whole.predicted) + ", measured " + to_string(whole.measured) + ": " +
                     signed_percent(whole.error() / whole.measured) + ". Below, the critical path of the " +
                     (comparison.along_measured ? "measurement" : "prediction") + ".\n\n";

  TextTable kinds({"instructions", "> number", "> predicted", "> measured", "> error", "> of all", "> of this kind"});
  const auto add_kind = [&](const std::string& name, const std::string& number, const Compared& of,
                            const Compared& all) {
    std::vector<std::string> row = cells({name, number}, of);
    row.push_back(all.measured == Seconds(0) ? "-" : signed_percent(all.error() / all.measured));
    kinds.add(std::move(row));
  };
  for (const Comparison::Kind& kind : comparison.kinds) {
    add_kind(to_string(kind.kind), std::to_string(kind.steps), kind.time, kind.everywhere);
  }
  add_kind("elsewhere", "-", comparison.elsewhere, {});
  add_kind("all", "-", whole, whole);
  text += kinds.to_string() + "\n";

  TextTable devices({"device", "> predicted", "> measured", "> error", "> of all"});
  for (const Comparison::OnDevice& device : comparison.devices) {
    devices.add(cells({cluster.devices[device.device].name}, device.time));
  }
  text += devices.to_string() + "\n";

  TextTable top({"instruction", "kind", "device", "> predicted", "> measured", "> error", "> of all"});
  for (std::size_t i = 0; i < std::min(kTopInstructions, comparison.instructions.size()); ++i) {
    const Comparison::OfInstruction& one = comparison.instructions[i];
    top.add(cells({name_of(one, graph, cluster, deployment), to_string(one.kind), cluster.devices[one.device].name},
                  one.time));
  }
  return text + top.to_string();
}

nlohmann::json accuracy_json(const Comparison& comparison, const Graph& graph, const Cluster& cluster,
                             const Deployment& deployment) {
  nlohmann::json json = to_json(comparison.iteration);
  json["along"] = comparison.along_measured ? "measured" : "predicted";
  json["elsewhere"] = to_json(comparison.elsewhere);
  for (const char* part : {"kinds", "devices", "instructions"}) json[part] = nlohmann::json::array();
  for (const Comparison::Kind& kind : comparison.kinds) {
    nlohmann::json entry = to_json(kind.time);
    entry["kind"] = to_string(kind.kind);
    entry["number"] = kind.steps;
    entry["everywhere"] = to_json(kind.everywhere);
    json["kinds"].push_back(entry);
  }
  for (const Comparison::OnDevice& device : comparison.devices) {
    nlohmann::json entry = to_json(device.time);
    entry["device"] = cluster.devices[device.device].name;
    json["devices"].push_back(entry);
  }
  for (std::size_t i = 0; i < std::min(kTopInstructions, comparison.instructions.size()); ++i) {
    const Comparison::OfInstruction& one = comparison.instructions[i];
    nlohmann::json entry = to_json(one.time);
    entry["instruction"] = name_of(one, graph, cluster, deployment);
    entry["kind"] = to_string(one.kind);
    entry["device"] = cluster.devices[one.device].name;
    json["instructions"].push_back(entry);
  }
  return json;
}

}  // namespace motley
