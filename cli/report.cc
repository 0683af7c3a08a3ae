#include "cli/report.h"

#include <algorithm>

#include "cli/text_table.h"
#include "strategy/work.h"

namespace motley {
namespace {

// What a device does: how many op groups it computes on, and what part of all their work (samples weighted by time).
struct Role {
  int groups = 0;
  double work = 0;
};

std::vector<Role> roles(const Strategy& strategy, const Evaluator& evaluator) {
  const std::vector<GroupWork> work =
      group_work(evaluator.graph(), evaluator.cluster(), evaluator.costs(), evaluator.batch());
  std::vector<Role> roles(evaluator.cluster().devices.size());
  double total = 0;
  for (std::size_t group = 0; group < strategy.groups.size(); ++group) {
    const double weight = *std::min_element(work[group].seconds.begin(), work[group].seconds.end());
    const std::vector<std::int64_t> split = split_batch(strategy.groups[group].shares, evaluator.batch());
    for (std::size_t i = 0; i < split.size(); ++i) {
      Role& role = roles[strategy.groups[group].shares[i].device];
      role.groups += 1;
      role.work += weight * static_cast<double>(split[i]) / static_cast<double>(evaluator.batch());
    }
    total += weight;
  }
  for (Role& role : roles) role.work /= total > 0 ? total : 1;
  return roles;
}

std::string shares_text(const GroupDecision& decision, const Evaluator& evaluator) {
  const std::vector<std::int64_t> split = split_batch(decision.shares, evaluator.batch());
  std::string text;
  for (std::size_t i = 0; i < decision.shares.size(); ++i) {
    text += (i == 0 ? "" : ", ") + evaluator.cluster().devices[decision.shares[i].device].name;
    if (decision.shares.size() > 1) text += " " + (split.empty() ? "?" : std::to_string(split[i]));
  }
  return text;
}

// Neighbouring groups (in the model's order) with equal decisions.
struct Run {
  GroupId first;
  GroupId last;
  int groups;
};

std::vector<Run> runs_of(const Strategy& strategy, const Graph& graph) {
  std::vector<Run> runs;
  for (const GroupId group : model_order(graph)) {
    if (!runs.empty() && strategy.groups[runs.back().last] == strategy.groups[group]) {
      runs.back().last = group;
      runs.back().groups += 1;
    } else {
      runs.push_back({group, group, 1});
    }
  }
  return runs;
}

nlohmann::json to_json(const DeviceMemory& memory) {
  nlohmann::json json{{"peak_bytes", memory.peak.value},         {"capacity_bytes", memory.capacity.value},
                      {"headroom_bytes", memory.headroom.value}, {"allocated_bytes", memory.allocated.value},
                      {"reserved_bytes", memory.reserved.value}, {"largest", nlohmann::json::array()}};
  for (const MemoryUse use : kMemoryUses) {
    std::string key = to_string(use);
    std::ranges::replace(key, ' ', '_');
    json["uses"][key] = memory.uses[use].value;
  }
  for (const LiveValue& value : memory.live_at_peak) {
    json["largest"].push_back({{"tensor", value.tensor}, {"bytes", value.bytes.value}});
  }
  return json;
}

}  // namespace

nlohmann::json to_json(const Evaluation& evaluation, const Cluster& cluster) {
  nlohmann::json json{{"strategy", evaluation.strategy.name},
                      {"iteration_seconds", nullptr},
                      {"feasible", evaluation.feasible()},
                      {"reasons", evaluation.reasons()},
                      {"peak_memory_bytes", nlohmann::json::object()},
                      {"memory", nlohmann::json::object()}};
  if (evaluation.not_compilable) return json;
  json["iteration_seconds"] = evaluation.simulation.iteration.value;
  json["estimated_share"] = evaluation.simulation.estimated_share;
  for (const DeviceMemory& memory : evaluation.simulation.memory) {
    const std::string& device = cluster.devices[memory.device].name;
    json["peak_memory_bytes"][device] = memory.peak.value;
    json["memory"][device] = to_json(memory);
  }
  return json;
}

void add_basis(nlohmann::json& json, const std::string& basis) {
  if (!basis.empty()) json["costs"] = basis;
}

std::string basis_text(const std::string& basis) { return basis.empty() ? "" : "\n" + basis + "\n"; }

std::string comparison_table(std::vector<Evaluation> evaluations, const Cluster& cluster) {
  std::stable_sort(evaluations.begin(), evaluations.end(), better);
  TextTable table({"strategy", "> per iteration", "fits", "> fullest device", "> of its memory", "> estimated"});
  for (const Evaluation& evaluation : evaluations) {
    if (evaluation.not_compilable) {
      table.add({evaluation.strategy.name, "-", "no", "-", "-", "-"});
      continue;
    }
    const auto& memory = evaluation.simulation.memory;
    const auto fullest = std::max_element(memory.begin(), memory.end(), [](const auto& a, const auto& b) {
      return a.peak / a.capacity < b.peak / b.capacity;
    });
    table.add({evaluation.strategy.name, to_string(evaluation.simulation.iteration),
               evaluation.feasible() ? "yes" : "no",
               cluster.devices[fullest->device].name + " " + to_string(fullest->peak),
               percent(fullest->peak / fullest->capacity), percent(evaluation.simulation.estimated_share)});
  }
  std::string text = table.to_string();
  for (const Evaluation& evaluation : evaluations) {
    for (const std::string& reason : evaluation.reasons()) text += evaluation.strategy.name + ": " + reason + "\n";
  }
  return text;
}

std::string device_table(const Evaluation& evaluation, const Evaluator& evaluator) {
  if (evaluation.not_compilable) return "";
  const std::vector<Role> all = roles(evaluation.strategy, evaluator);
  const SimulationResult& simulation = evaluation.simulation;
  TextTable table({"device", "kind", "> groups", "> of the work", "> computes", "> idle", "> peak memory", "> of"});
  std::vector<bool> used(all.size(), false);
  for (std::size_t i = 0; i < simulation.memory.size(); ++i) {
    const DeviceMemory& memory = simulation.memory[i];
    const Device& device = evaluator.cluster().devices[memory.device];
    used[memory.device] = true;
    table.add({device.name, device.kind, std::to_string(all[memory.device].groups), percent(all[memory.device].work),
               to_string(simulation.busy[i]), percent(1 - simulation.busy[i] / simulation.iteration),
               to_string(memory.peak), to_string(memory.capacity)});
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    const Device& device = evaluator.cluster().devices[i];
    if (!used[i]) table.add({device.name, device.kind, "-", "-", "-", "-", "-", to_string(device.memory)});
  }
  return table.to_string();
}

std::string memory_table(const Evaluation& evaluation, const Cluster& cluster) {
  if (evaluation.not_compilable) return "";
  const std::vector<DeviceMemory>& devices = evaluation.simulation.memory;
  const auto any = [&](auto has) { return std::ranges::any_of(devices, has); };
  std::vector<std::string> headings = {"peak memory of"};
  std::vector<MemoryUse> uses;
  for (const MemoryUse use : kMemoryUses) {
    if (!any([&](const DeviceMemory& memory) { return memory.uses[use] > Bytes(0); })) continue;
    uses.push_back(use);
    headings.push_back("> " + to_string(use));
  }
  headings.insert(headings.end(), {"> in all", "> of"});
  const bool roomy = any([](const DeviceMemory& memory) { return memory.headroom > Bytes(0); });
  if (roomy) headings.emplace_back("> less headroom");
  TextTable table(headings);
  for (const DeviceMemory& memory : devices) {
    std::vector<std::string> row = {cluster.devices[memory.device].name};
    for (const MemoryUse use : uses) row.push_back(memory.uses[use] == Bytes(0) ? "-" : to_string(memory.uses[use]));
    row.insert(row.end(), {to_string(memory.peak), to_string(memory.capacity)});
    if (roomy) row.push_back(to_string(memory.headroom));
    table.add(row);
  }
  return table.to_string();
}

// How the batch passes through; empty when it does so as a whole.
std::string passage(const Strategy& strategy) {
  if (strategy.micro_batches == 1) return "";
  return std::to_string(strategy.micro_batches) + " micro-batches by the schedule " + strategy.schedule + "\n";
}

std::string placement_table(const Strategy& strategy, const Evaluator& evaluator) {
  const bool stages = has_stages(strategy);
  std::vector<std::string> headings = {"op groups", "> number", "devices and their samples", "gradients"};
  if (stages) headings.insert(headings.begin(), "> stage");
  const bool recomputes = std::ranges::any_of(
      strategy.groups, [](const GroupDecision& group) { return group.recompute != Recompute::kNone; });
  if (recomputes) headings.emplace_back("recomputation");
  TextTable table(headings);
  for (const Run& run : runs_of(strategy, evaluator.graph())) {
    const GroupDecision& decision = strategy.groups[run.first];
    std::string groups = evaluator.graph().groups[run.first].name;
    if (run.groups > 1) groups.append(" ... ").append(evaluator.graph().groups[run.last].name);
    const bool shared = decision.shares.size() > 1;
    std::vector<std::string> row = {groups, std::to_string(run.groups), shares_text(decision, evaluator),
                                    shared ? to_string(decision.gradient) : "-"};
    if (stages) row.insert(row.begin(), std::to_string(decision.stage));
    if (recomputes) row.push_back(to_string(decision.recompute));
    table.add(row);
  }
  return passage(strategy) + table.to_string();
}

nlohmann::json to_json(const Plan& plan, const Cluster& cluster) {
  nlohmann::json json = to_json(plan.chosen, cluster);
  json["lower_bound_seconds"] = plan.bound.seconds().value;
  json["lower_bound"] = nlohmann::json::array();
  for (const LowerBound::Part& part : plan.bound.parts) {
    json["lower_bound"].push_back({{"of", part.name}, {"share", part.share}});
  }
  json["evaluations"] = plan.evaluations;
  json["search_seconds"] = plan.elapsed.value;
  json["improvements"] = nlohmann::json::array();
  for (const Improvement& one : plan.improvements) {
    json["improvements"].push_back({{"evaluations", one.evaluations}, {"iteration_seconds", one.iteration.value}});
  }
  if (!plan.feasible()) {
    json["reasons"] = plan.reasons;
    json["changes"] = plan.changes;
  }
  return json;
}

namespace {

// What must become faster for a lower bound to fall: the largest parts.
std::string parts_text(const LowerBound& bound) {
  constexpr std::size_t kMost = 4;
  constexpr double kLeast = 0.01;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, bound.parts.size()) && bound.parts[i].share >= kLeast; ++i) {
    text += (i == 0 ? " (" : ", ") + bound.parts[i].name + " " + percent(bound.parts[i].share);
  }
  return text.empty() ? text : text + ")";
}

}  // namespace

std::string plan_report(const Plan& plan, const Evaluator& evaluator) {
  if (!plan.feasible()) {
    std::string text = "no strategy fits.\n";
    for (const std::string& reason : plan.reasons) text += "  " + reason + "\n";
    for (const std::string& change : plan.changes) text += "nearest change: " + change + "\n";
    return text;
  }
  const SimulationResult& simulation = plan.chosen.simulation;
  const Seconds bound = plan.bound.seconds();
  std::string text =
      to_string(simulation.iteration) + " per iteration of " + std::to_string(evaluator.batch()) + " samples (" +
      plan.chosen.strategy.name + "); no strategy can take less than " + to_string(bound) + parts_text(plan.bound) +
      ", so at most " + percent(1 - bound / simulation.iteration) + " can still be gained.\n" +
      percent(simulation.estimated_share) + " of the compute time rests on estimates, the rest on measurements.\n\n" +
      device_table(plan.chosen, evaluator) + "\n" + placement_table(plan.chosen.strategy, evaluator);
  for (const Evaluation& baseline : plan.baselines) {
    if (baseline.strategy.name == "ev-ar" && baseline.feasible()) {
      text += "\n" + times(baseline.simulation.iteration / simulation.iteration) +
              " as fast as even data parallelism (ev-ar, " + to_string(baseline.simulation.iteration) + ").\n";
    }
  }
  return text;
}

std::string explanation(const Evaluation& subject, const Plan& plan, const Evaluator& evaluator) {
  std::string text = comparison_table({subject}, evaluator.cluster()) + "\n" + device_table(subject, evaluator) + "\n" +
                     memory_table(subject, evaluator.cluster()) + "\n" + placement_table(subject.strategy, evaluator) +
                     "\n";
  if (subject.not_compilable) return text;
  TextTable table({"instead", "> per iteration", "> of this plan's", "fits"});
  const auto add = [&](const std::string& what, const Evaluation& other) {
    if (other.not_compilable) return;
    table.add({what, to_string(other.simulation.iteration),
               times(other.simulation.iteration / subject.simulation.iteration), other.feasible() ? "yes" : "no"});
  };
  if (subject.strategy != plan.chosen.strategy) add("what a search finds", plan.chosen);
  for (const RunnerUp& other : plan.runners_up) add(other.instead, other.evaluation);
  for (const Evaluation& baseline : plan.baselines) add(baseline.strategy.name, baseline);
  return text + table.to_string();
}

nlohmann::json explanation_json(const Evaluation& subject, const Plan& plan, const Evaluator& evaluator) {
  nlohmann::json json{{"plan", to_json(subject, evaluator.cluster())},
                      {"lower_bound_seconds", plan.bound.seconds().value},
                      {"evaluations", plan.evaluations},
                      {"search_seconds", plan.elapsed.value},
                      {"micro_batches", subject.strategy.micro_batches},
                      {"schedule", subject.strategy.schedule},
                      {"placement", nlohmann::json::array()},
                      {"alternatives", nlohmann::json::array()}};
  for (const Run& run : runs_of(subject.strategy, evaluator.graph())) {
    const GroupDecision& decision = subject.strategy.groups[run.first];
    nlohmann::json samples = nlohmann::json::object();
    const std::vector<std::int64_t> split = split_batch(decision.shares, evaluator.batch());
    for (std::size_t i = 0; i < split.size(); ++i) {
      samples[evaluator.cluster().devices[decision.shares[i].device].name] = split[i];
    }
    json["placement"].push_back({{"first_group", evaluator.graph().groups[run.first].name},
                                 {"last_group", evaluator.graph().groups[run.last].name},
                                 {"groups", run.groups},
                                 {"samples", samples},
                                 {"stage", decision.stage},
                                 {"recompute", to_string(decision.recompute)},
                                 {"gradients", to_string(decision.gradient)}});
  }
  for (const RunnerUp& other : plan.runners_up) {
    nlohmann::json entry = to_json(other.evaluation, evaluator.cluster());
    entry["decision"] = other.decision;
    entry["instead"] = other.instead;
    json["alternatives"].push_back(entry);
  }
  for (const Evaluation& baseline : plan.baselines) {
    json["alternatives"].push_back(to_json(baseline, evaluator.cluster()));
  }
  return json;
}

}  // namespace motley
