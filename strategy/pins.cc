#include "strategy/pins.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/suggest.h"

namespace motley {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorKind::kInvalidInput, why); }

std::vector<DeviceIndex> devices_at(const Cluster& cluster, const std::string& where) {
  std::vector<std::string> names;
  for (const Node& node : cluster.nodes) {
    if (node.name == where) return node.devices;
    names.push_back(node.name);
  }
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    if (cluster.devices[d].name == where) return {static_cast<DeviceIndex>(d)};
    names.push_back(cluster.devices[d].name);
  }
  refuse("\"" + where + "\" is no device or node of the cluster" + did_you_mean(where, names));
}

bool meets(const std::string& pattern, const std::string& name) {
  return !name.empty() && ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<GroupId> groups_like(const Graph& graph, const std::string& pattern) {
  std::vector<GroupId> groups;
  std::vector<std::string> names;
  for (std::size_t g = 0; g < graph.groups.size(); ++g) {
    const OpGroup& group = graph.groups[g];
    const auto of_module = [&](OpId op) { return meets(pattern, graph.ops[at(op)].module); };
    if (meets(pattern, group.name) || std::ranges::any_of(group.ops, of_module)) {
      groups.push_back(static_cast<GroupId>(g));
    }
    names.push_back(group.name);
  }
  if (groups.empty()) {
    refuse("no op group or module is called \"" + pattern + "\"" + did_you_mean(pattern, names) +
           ": motley inspect lists the op groups");
  }
  return groups;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == separator) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

}  // namespace

Pins::Pins(const Graph& graph, const Cluster& cluster, const std::vector<std::string>& pinned,
           const std::vector<std::string>& without) {
  if (pinned.empty() && without.empty()) return;
  const std::vector<char> all(cluster.devices.size(), 1);
  allowed_.assign(graph.groups.size(), all);
  for (const std::string& pin : pinned) {
    const std::size_t sign = pin.rfind('=');
    if (sign == std::string::npos || sign == 0 || sign + 1 == pin.size()) {
      refuse("\"" + pin + "\" pins nothing: write GROUPS=DEVICE, as in lm_head=big/0,big/1");
    }
    std::vector<char> there(all.size(), 0);
    for (const std::string& where : split(pin.substr(sign + 1), ',')) {
      for (const DeviceIndex device : devices_at(cluster, where)) there[at(device)] = 1;
    }
    for (const GroupId group : groups_like(graph, pin.substr(0, sign))) {
      for (std::size_t d = 0; d < all.size(); ++d) allowed_[at(group)][d] &= there[d];
    }
  }
  for (const std::string& where : without) {
    for (const DeviceIndex device : devices_at(cluster, where)) {
      for (std::vector<char>& devices : allowed_) devices[at(device)] = 0;
    }
  }
  for (std::size_t g = 0; g < allowed_.size(); ++g) {
    if (std::ranges::count(allowed_[g], 1) > 0) continue;
    refuse("the pins leave no device for op group " + graph.groups[g].name + ": name one more for it");
  }
}

bool Pins::may(DeviceIndex device) const {
  return allowed_.empty() ||
         std::ranges::any_of(allowed_, [&](const std::vector<char>& devices) { return devices[at(device)] != 0; });
}

bool Pins::obeyed_by(const Strategy& strategy) const {
  for (std::size_t g = 0; g < allowed_.size(); ++g) {
    const auto barred = [&](const Share& share) { return allowed_[g][at(share.device)] == 0; };
    if (std::ranges::any_of(strategy.groups[g].shares, barred)) return false;
  }
  return true;
}

Strategy Pins::obeying(Strategy strategy, std::int64_t batch) const {
  for (std::size_t g = 0; g < allowed_.size(); ++g) {
    std::vector<Share>& shares = strategy.groups[g].shares;
    std::erase_if(shares, [&](const Share& share) { return allowed_[g][at(share.device)] == 0; });
    if (!shares.empty()) continue;
    const std::int64_t most = std::max<std::int64_t>(1, batch / strategy.micro_batches);
    for (std::size_t d = 0; d < allowed_[g].size() && static_cast<std::int64_t>(shares.size()) < most; ++d) {
      if (allowed_[g][d] != 0) shares.push_back({static_cast<DeviceIndex>(d), 1.0});
    }
  }
  return strategy;
}

}  // namespace motley
