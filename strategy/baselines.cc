#include "strategy/baselines.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "compiler/schedule/schedule.h"
#include "strategy/pipelines.h"
#include "strategy/work.h"

namespace motley {

namespace {

GroupDecision on_all_devices(const std::vector<double>& weights, GradientMethod method) {
  GroupDecision decision;
  decision.gradient = method;
  for (std::size_t d = 0; d < weights.size(); ++d) {
    decision.shares.push_back({static_cast<DeviceIndex>(d), weights[d]});
  }
  return decision;
}

// Fills one device after the other, each for at most `limit` seconds and within `memory`. Returns the device of each
// place in `order`, or nothing when groups are left over.
std::vector<DeviceIndex> fill_blocks(const std::vector<GroupWork>& work, const std::vector<GroupId>& order,
                                     const std::vector<double>& memory, double limit) {
  std::vector<DeviceIndex> device_of;
  DeviceIndex device = 0;
  double seconds = 0, bytes = 0;
  for (GroupId group : order) {
    const auto group_bytes = static_cast<double>(work[group].state_bytes + work[group].activation_bytes);
    while (seconds + work[group].seconds[device] > limit || bytes + group_bytes > memory[device]) {
      if (++device == static_cast<DeviceIndex>(memory.size())) return {};
      seconds = bytes = 0;
    }
    seconds += work[group].seconds[device];
    bytes += group_bytes;
    device_of.push_back(device);
  }
  return device_of;
}

// The blocks whose slowest is the fastest, found by halving the time that a block may take.
std::vector<DeviceIndex> balance_blocks(const std::vector<GroupWork>& work, const std::vector<GroupId>& order,
                                        const std::vector<double>& memory) {
  double high = 0;
  for (const GroupWork& group : work) high += *std::max_element(group.seconds.begin(), group.seconds.end());
  std::vector<DeviceIndex> best = fill_blocks(work, order, memory, high);
  if (best.empty()) return best;
  double low = 0;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    std::vector<DeviceIndex> blocks = fill_blocks(work, order, memory, middle);
    (blocks.empty() ? low : high) = middle;
    if (!blocks.empty()) best = std::move(blocks);
  }
  return best;
}

Strategy model_parallel_blocks(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch) {
  const std::vector<GroupWork> work = group_work(graph, cluster, costs, batch);
  const std::vector<GroupId> order = model_order(graph);
  std::vector<double> memory;
  memory.reserve(cluster.devices.size());
  for (DeviceIndex d = 0; d < static_cast<DeviceIndex>(cluster.devices.size()); ++d) {
    memory.push_back(static_cast<double>((cluster.devices[d].usable() - costs.context(d)).value));
  }
  std::vector<DeviceIndex> blocks = balance_blocks(work, order, memory);
  if (blocks.empty()) {  // too little memory in all: balance by time alone; the simulation says what is short
    std::fill(memory.begin(), memory.end(), std::numeric_limits<double>::infinity());
    blocks = balance_blocks(work, order, memory);
  }
  Strategy strategy = uniform_strategy("mp-blocks", graph, {});
  for (std::size_t i = 0; i < order.size(); ++i) strategy.groups[order[i]].shares = {{blocks[i], 1.0}};
  return strategy;
}

std::vector<std::string> devices_of(const Cluster& cluster) {
  std::vector<std::string> names;
  names.reserve(cluster.devices.size());
  for (const Device& device : cluster.devices) names.push_back(device.name);
  return names;
}

std::vector<std::string> names_on(const std::vector<std::string>& devices) {
  std::vector<std::string> names = {"ev-ps", "ev-ar", "cp-ps", "cp-ar"};
  for (const std::string& device : devices) names.push_back("mp:" + device);
  names.emplace_back("mp-blocks");
  return names;
}

}  // namespace

std::vector<std::string> strategy_names(const Cluster& cluster) {
  if (cluster.devices.size() > kManyDevices) {
    std::vector<std::string> names = {"ev-ar", "cp-ar"};
    std::set<std::string> kinds;
    for (const Device& device : cluster.devices) {
      if (kinds.insert(device.kind).second) names.push_back("mp:" + device.name);
    }
    names.emplace_back("mp-blocks");
    return names;
  }
  std::vector<std::string> names = names_on(devices_of(cluster));
  constexpr std::size_t kMostDevices = 16;
  if (cluster.devices.size() > 1 && cluster.devices.size() <= kMostDevices) {
    names.insert(names.end(), {"pp:gpipe", "pp:1f1b"});
  }
  return names;
}

void check_strategy_name(const std::string& name, const std::vector<std::string>& devices) {
  if (devices.empty() && name.starts_with("mp:")) return;
  std::vector<std::string> names = names_on(devices);
  for (const std::string& schedule : schedule_names()) names.push_back("pp:" + schedule);
  names.push_back(std::string("pp:") + kAutoSchedule);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  throw Error(ErrorKind::kInvalidInput,
              "unknown strategy \"" + name + "\"" + did_you_mean(name, names) +
                  "; there are ev-ps, ev-ar, cp-ps, cp-ar, mp-blocks, pp:SCHEDULE for each schedule, as in pp:1f1b, "
                  "and mp:DEVICE for each device" +
                  (devices.empty() ? "" : ", as in mp:" + devices.front()));
}

Strategy uniform_strategy(const std::string& name, const Graph& graph, const GroupDecision& decision) {
  Strategy strategy;
  strategy.name = name;
  strategy.groups.assign(graph.groups.size(), decision);
  return strategy;
}

Strategy baseline(const std::string& name, const Graph& graph, const Cluster& cluster, const CostModel& costs,
                  std::int64_t batch) {
  check_strategy_name(name, devices_of(cluster));
  if (name == "mp-blocks") return model_parallel_blocks(graph, cluster, costs, batch);
  if (name.starts_with("pp:")) return even_pipeline(name.substr(3), graph, cluster, costs, batch);
  if (name.starts_with("mp:")) {
    return uniform_strategy(name, graph, {{{cluster.device_named(name.substr(3)), 1.0}}});
  }
  std::vector<double> weights(cluster.devices.size(), 1.0);
  if (name.starts_with("cp-")) {
    const std::vector<double> seconds = iteration_seconds(group_work(graph, cluster, costs, batch), cluster);
    for (std::size_t d = 0; d < weights.size(); ++d) weights[d] = seconds[d] > 0 ? 1 / seconds[d] : 1.0;
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
  }
  const bool server = name.ends_with("-ps");
  return uniform_strategy(
      name, graph, on_all_devices(weights, server ? GradientMethod::kParameterServer : GradientMethod::kAllReduce));
}

}  // namespace motley
