#include "compiler/plan_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "compiler/schedule/schedule.h"

namespace motley {
namespace {

constexpr int kFormatVersion = 1;

// The shortest text that reads back as the same number.
std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string quoted(const std::string& text) {
  YAML::Emitter out;
  out << YAML::DoubleQuoted << text;
  return out.c_str();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += " " + name;
  return text;
}

std::string no_key(const std::string& what, const std::string& key, const std::vector<std::string>& keys) {
  return what + " has no key " + key + did_you_mean(key, keys) + "; its keys are" + joined(keys);
}

class Reader {
 public:
  Reader(std::string source, const Graph& graph, const Cluster& cluster)
      : source_(std::move(source)), graph_(graph), cluster_(cluster) {}

  PlanFile read(const YAML::Node& root) {
    check_keys(
        root, "a plan",
        {"motley_plan", "strategy", "graph", "cluster", "batch", "bucket", "micro_batches", "schedule", "groups"});
    if (integer(root, "motley_plan") != kFormatVersion) {
      refuse(root["motley_plan"],
             "this motley reads plans of format version " + std::to_string(kFormatVersion) + ": make the plan anew");
    }
    check_graph(required(root, "graph"));
    check_cluster(required(root, "cluster"));
    PlanFile plan;
    plan.strategy.name = text(required(root, "strategy"));
    plan.batch = integer(root, "batch");
    if (plan.batch < 1) refuse(root["batch"], "the batch has at least one sample");
    plan.strategy.bucket = bytes(required(root, "bucket"));
    if (root["micro_batches"]) plan.strategy.micro_batches = integer(root, "micro_batches");
    if (plan.strategy.micro_batches < 1) refuse(root["micro_batches"], "there is at least one micro-batch");
    if (root["schedule"]) plan.strategy.schedule = schedule(root["schedule"]);
    read_groups(required(root, "groups"), plan.strategy);
    return plan;
  }

  [[noreturn]] void refuse(const YAML::Node& at, const std::string& message) const {
    const int line = at.IsDefined() ? at.Mark().line : -1;
    throw Error(ErrorKind::kInvalidInput, source_ + (line >= 0 ? ":" + std::to_string(line + 1) : "") + ": " + message);
  }

 private:
  void check_keys(const YAML::Node& map, const std::string& what, const std::vector<std::string>& keys) const {
    if (!map.IsMap()) refuse(map, what + " is written as KEY: VALUE with the keys" + joined(keys));
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const std::string key = text(entry.first);
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        refuse(entry.first, no_key(what, key, keys));
      }
      if (!seen.insert(key).second) refuse(entry.first, "the key " + key + " stands twice: remove one of the two");
    }
  }

  YAML::Node required(const YAML::Node& map, const std::string& key) const {
    if (!map[key]) refuse(map, key + " is missing: add " + key + ": and its value");
    return map[key];
  }

  std::string text(const YAML::Node& node) const {
    if (!node.IsScalar()) refuse(node, "one word is needed here");
    return node.Scalar();
  }

  std::int64_t integer(const YAML::Node& map, const std::string& key) const {
    const YAML::Node node = required(map, key);
    std::int64_t value = 0;
    if (!YAML::convert<std::int64_t>::decode(node, value)) refuse(node, key + " is a whole number");
    return value;
  }

  Bytes bytes(const YAML::Node& node) const {
    try {
      const Bytes value = parse_bytes(text(node));
      if (value.value > 0) return value;
    } catch (const Error& error) {
      refuse(node, std::string("bucket: ") + error.what());
    }
    refuse(node, "bucket must be above 0");
  }

  void check_graph(const YAML::Node& node) const {
    check_keys(node, "graph", {"name", "fingerprint"});
    const YAML::Node fingerprint = required(node, "fingerprint");
    if (text(fingerprint) != graph_.fingerprint) {
      refuse(fingerprint, "the plan is for another training graph (fingerprint " + text(fingerprint) + ") than " +
                              graph_.name + " (" + graph_.fingerprint +
                              "): the model, the optimizer or the grouping has changed, so plan again");
    }
  }

  // The same devices, in any order.
  void check_cluster(const YAML::Node& node) const {
    if (!node.IsSequence()) refuse(node, "cluster is the list of all devices' names");
    std::set<std::string> named;
    for (const YAML::Node& device : node) {
      find_device(device);
      named.insert(text(device));
    }
    for (const Device& device : cluster_.devices) {
      if (!named.contains(device.name)) {
        refuse(node, "the plan is for a cluster without device " + device.name + ", which " + cluster_.source +
                         " has: plan again, or give the plan's own cluster");
      }
    }
  }

  DeviceIndex find_device(const YAML::Node& node) const {
    std::vector<std::string> names;
    for (const Device& device : cluster_.devices) names.push_back(device.name);
    const auto found = std::find(names.begin(), names.end(), text(node));
    if (found == names.end()) {
      refuse(node, "there is no device " + text(node) + did_you_mean(text(node), names) + "; " + cluster_.source +
                       " has" + joined(names));
    }
    return static_cast<DeviceIndex>(found - names.begin());
  }

  std::string schedule(const YAML::Node& node) const {
    std::vector<std::string> names = schedule_names();
    names.emplace_back(kAutoSchedule);
    if (std::find(names.begin(), names.end(), text(node)) == names.end()) {
      refuse(node,
             "there is no schedule " + text(node) + did_you_mean(text(node), names) + "; there are" + joined(names));
    }
    return text(node);
  }

  void read_groups(const YAML::Node& node, Strategy& strategy) const {
    if (!node.IsSequence()) refuse(node, "groups is a list: write one - for each op group");
    strategy.groups.resize(graph_.groups.size());
    for (const YAML::Node& row : node) read_group(row, strategy);
    for (std::size_t g = 0; g < strategy.groups.size(); ++g) {
      if (strategy.groups[g].shares.empty()) {
        refuse(node, "group " + std::to_string(g) + " (" + graph_.groups[g].name + ") is missing: add an entry for it");
      }
    }
  }

  void read_group(const YAML::Node& row, Strategy& strategy) const {
    check_keys(row, "a group", {"group", "name", "shares", "gradient", "stage", "recompute"});
    const std::int64_t index = integer(row, "group");
    if (index < 0 || static_cast<std::size_t>(index) >= graph_.groups.size()) {
      refuse(row["group"], "there is no group " + std::to_string(index) + "; " + graph_.name + " has groups 0 to " +
                               std::to_string(graph_.groups.size() - 1));
    }
    const std::string& name = graph_.groups[static_cast<std::size_t>(index)].name;
    if (text(required(row, "name")) != name) {
      refuse(row["name"], "group " + std::to_string(index) + " of " + graph_.name + " is called " + name + ", not " +
                              text(row["name"]));
    }
    GroupDecision& decision = strategy.groups[static_cast<std::size_t>(index)];
    if (!decision.shares.empty())
      refuse(row, "group " + std::to_string(index) + " stands twice: remove one of the two");
    decision.shares = read_shares(required(row, "shares"));
    const std::string method = text(required(row, "gradient"));
    const std::optional<GradientMethod> gradient = parse_gradient_method(method);
    if (!gradient) {
      refuse(row["gradient"], "gradient is " + to_string(GradientMethod::kAllReduce) + " or " +
                                  to_string(GradientMethod::kParameterServer) + ", not " + method);
    }
    decision.gradient = *gradient;
    if (row["recompute"]) {
      const std::optional<Recompute> recompute = parse_recompute(text(row["recompute"]));
      if (!recompute) refuse(row["recompute"], "recompute is none, selective or full, not " + text(row["recompute"]));
      decision.recompute = *recompute;
    }
    if (!row["stage"]) return;
    const std::int64_t stage = integer(row, "stage");
    if (stage < 0 || static_cast<std::size_t>(stage) >= graph_.groups.size()) {
      refuse(row["stage"], "stages are numbered from 0, and there are no more than groups");
    }
    decision.stage = static_cast<std::int32_t>(stage);
  }

  std::vector<Share> read_shares(const YAML::Node& node) const {
    if (!node.IsMap() || node.size() == 0) refuse(node, "shares are written as {DEVICE: WEIGHT, ...}");
    std::vector<Share> shares;
    for (const auto& entry : node) {
      Share share{find_device(entry.first), 0};
      if (!YAML::convert<double>::decode(entry.second, share.weight) || !(share.weight > 0) ||
          !std::isfinite(share.weight)) {
        refuse(entry.second, "the share of " + text(entry.first) + " is a number above 0");
      }
      shares.push_back(share);
    }
    std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.device < b.device; });
    for (std::size_t i = 1; i < shares.size(); ++i) {
      if (shares[i - 1].device == shares[i].device) refuse(node, "a device has two shares: remove one of the two");
    }
    return shares;
  }

  std::string source_;
  const Graph& graph_;
  const Cluster& cluster_;
};

}  // namespace

std::string plan_to_yaml(const PlanFile& plan, const Graph& graph, const Cluster& cluster) {
  MOTLEY_CHECK(plan.strategy.groups.size() == graph.groups.size(), plan.strategy.name);
  std::string text = "motley_plan: " + std::to_string(kFormatVersion) + "\n";
  text += "strategy: " + quoted(plan.strategy.name) + "\n";
  text += "graph: {name: " + quoted(graph.name) + ", fingerprint: " + quoted(graph.fingerprint) + "}\n";
  text += "cluster: [";
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    text += (d > 0 ? ", " : "") + quoted(cluster.devices[d].name);
  }
  text += "]\nbatch: " + std::to_string(plan.batch) + "\n";
  text += "bucket: " + std::to_string(plan.strategy.bucket.value) + "B\n";
  if (plan.strategy.micro_batches > 1) {
    text += "micro_batches: " + std::to_string(plan.strategy.micro_batches) + "\n";
    text += "schedule: " + plan.strategy.schedule + "\n";
  }
  text += "groups:\n";
  for (std::size_t g = 0; g < plan.strategy.groups.size(); ++g) {
    const GroupDecision& decision = plan.strategy.groups[g];
    text += "  - {group: " + std::to_string(g) + ", name: " + quoted(graph.groups[g].name) + ", shares: {";
    for (std::size_t i = 0; i < decision.shares.size(); ++i) {
      const Share& share = decision.shares[i];
      text += (i > 0 ? ", " : "") + quoted(cluster.devices[static_cast<std::size_t>(share.device)].name) + ": " +
              number(share.weight);
    }
    text += "}, gradient: " + to_string(decision.gradient);
    if (decision.stage > 0) text += ", stage: " + std::to_string(decision.stage);
    if (decision.recompute != Recompute::kNone) text += ", recompute: " + to_string(decision.recompute);
    text += "}\n";
  }
  return text;
}

PlanFile parse_plan(const std::string& yaml, const std::string& source, const Graph& graph, const Cluster& cluster) {
  Reader reader(source, graph, cluster);
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::kInvalidInput,
                source + ":" + std::to_string(error.mark.line + 1) + ": this is no YAML: " + error.msg);
  }
  return reader.read(root);
}

PlanFile read_plan(const std::string& path, const Graph& graph, const Cluster& cluster) {
  return parse_plan(read_file(path), path, graph, cluster);
}

}  // namespace motley
