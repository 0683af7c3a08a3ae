#include "strategy/bottleneck.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "simulator/collective.h"
#include "simulator/critical_path.h"

namespace motley {
namespace {

// All that is alike by `key` gets one number.
template <class Key>
class Classes {
 public:
  std::int32_t add(const Key& key, std::int32_t member) {
    const auto number = static_cast<std::int32_t>(members.size());
    const auto [known, fresh] = known_.try_emplace(key, number);
    if (fresh) members.emplace_back();
    members[known->second].push_back(member);
    return known->second;
  }
  std::vector<std::vector<std::int32_t>> members;

 private:
  std::map<Key, std::int32_t> known_;
};

// What a link joins at one end, for telling links that are alike.
std::string end_of(const Cluster& cluster, VertexIndex vertex) {
  const auto devices = static_cast<VertexIndex>(cluster.devices.size());
  if (vertex < devices) return cluster.devices[vertex].kind;
  return vertex < devices + static_cast<VertexIndex>(cluster.nodes.size()) ? "node" : "switch";
}

class Account {
 public:
  Account(const Cluster& cluster, const CostModel& costs, const Deployment& deployment, const SimulationResult& result)
      : cluster_(cluster), costs_(costs), deployment_(deployment), result_(result), sent_(cluster.channel_count()) {
    for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
      kind_of_.push_back(kinds_.add(cluster.devices[d].kind, static_cast<std::int32_t>(d)));
    }
    for (std::size_t l = 0; l < cluster.links.size(); ++l) {
      const Link& link = cluster.links[l];
      auto ends = std::pair(end_of(cluster, link.a), end_of(cluster, link.b));
      if (ends.second < ends.first) std::swap(ends.first, ends.second);
      const std::tuple key(ends, link.bandwidth.value, link.latency.value, link.full_duplex);
      alike_.push_back(links_.add(key, static_cast<std::int32_t>(l)));
    }
    compute_.resize(kinds_.members.size());
    link_.resize(links_.members.size());
  }

  std::vector<Usage> run() {
    const std::map<DeviceIndex, const Program*> programs = programs_by_device(deployment_);
    for (const PathStep& step : CausalTimeline(deployment_, result_.events).critical_path()) {
      const Program& program = *programs.at(step.device);
      const Instruction& instruction = program.instructions[step.instruction];
      const Seconds time = step.to - step.from;
      if (step.until == Edge::kBegin || stream_of(instruction.kind) == Stream::kCompute) {
        compute_[kind_of_[step.device]] += time;
      } else if (instruction.kind == InstructionKind::kAllReduce) {
        collective(deployment_.collectives[instruction.collective], time);
      } else if (instruction.kind == InstructionKind::kSend) {
        message(step.device, instruction.peer, time);
      } else {
        message(instruction.peer, step.device, time);
      }
    }
    return usages();
  }

 private:
  Seconds fixed(DeviceIndex from, DeviceIndex to, double bytes) const {
    return cluster_.latency(from, to) + costs_.messages(from).overhead +
           cluster_.shortfall(cluster_.route(from, to), bytes);
  }

  // `wire`: what the rest of `time` counts for.
  void split(Seconds time, Seconds fixed, ChannelIndex wire) {
    const Seconds part = std::min(time, fixed);
    messages_ += part;
    (wire < 0 ? messages_ : link_[alike_[wire / 2]]) += time - part;
  }

  void message(DeviceIndex from, DeviceIndex to, Seconds time) {
    ChannelIndex busiest = -1;
    double most = -1;
    for (const ChannelIndex channel : cluster_.route(from, to)) {
      const double busy = (result_.channel_bytes[channel] / cluster_.bandwidth(channel)).value;
      if (busy > most) busiest = channel;
      most = std::max(most, busy);
    }
    split(time, fixed(from, to, 0) + costs_.messages(to).overhead, busiest);
  }

  void collective(const Collective& collective, Seconds time) {
    const auto [known, fresh] = collectives_.try_emplace({collective.bytes.value, collective.members});
    if (fresh) known->second = worked_out(collective);
    split(time, known->second.first, known->second.second);
  }

  std::pair<Seconds, ChannelIndex> worked_out(const Collective& collective) {
    const StepTime step_time = [this](DeviceIndex from, DeviceIndex to, double bytes) {
      return fixed(from, to, bytes);
    };
    std::pair<Seconds, ChannelIndex> result(Seconds(0), -1);
    std::fill(sent_.begin(), sent_.end(), 0);
    const auto bytes = static_cast<double>(collective.bytes.value);
    for (const CollectiveStep& step : all_reduce_steps(collective.members, bytes, cluster_, step_time)) {
      result.first += step.fixed;
      for (const CollectiveHop& hop : step.hops) {
        for (const ChannelIndex channel : cluster_.route(hop.from, hop.to)) sent_[channel] += hop.bytes;
      }
    }
    double longest = 0;
    for (ChannelIndex channel = 0; channel < cluster_.channel_count(); ++channel) {
      const double busy = sent_[channel] / cluster_.bandwidth(channel).value;
      if (busy > longest) result.second = channel;
      longest = std::max(longest, busy);
    }
    return result;
  }

  std::vector<Usage> usages() {
    std::vector<Usage> all;
    for (std::size_t k = 0; k < compute_.size(); ++k) {
      const std::vector<std::int32_t>& members = kinds_.members[k];
      all.push_back(
          {{Resource::What::kCompute, "compute of " + cluster_.devices[members[0]].kind, members}, compute_[k]});
    }
    for (std::size_t l = 0; l < link_.size(); ++l) {
      const std::vector<std::int32_t>& members = links_.members[l];
      std::string name = "link " + cluster_.links[members[0]].name;
      if (members.size() > 1) name += " and " + std::to_string(members.size() - 1) + " like it";
      all.push_back({{Resource::What::kLinks, std::move(name), members}, link_[l]});
    }
    all.push_back({{Resource::What::kMessages, "latency and overhead of messages", {}}, messages_});
    std::erase_if(all, [](const Usage& usage) { return usage.time.value <= 0; });
    std::ranges::stable_sort(all, std::greater<>(), &Usage::time);
    return all;
  }

  const Cluster& cluster_;
  const CostModel& costs_;
  const Deployment& deployment_;
  const SimulationResult& result_;
  Classes<std::string> kinds_;
  Classes<std::tuple<std::pair<std::string, std::string>, double, double, bool>> links_;
  std::vector<std::int32_t> kind_of_;  // by device
  std::vector<std::int32_t> alike_;    // by link
  std::vector<Seconds> compute_;       // by kind
  std::vector<Seconds> link_;          // by class of links
  Seconds messages_;
  std::vector<double> sent_;  // by channel: bytes of the collective at hand
  std::map<std::pair<std::int64_t, std::vector<DeviceIndex>>, std::pair<Seconds, ChannelIndex>> collectives_;
};

}  // namespace

std::vector<Usage> critical_usage(const Cluster& cluster, const CostModel& costs, const Deployment& deployment,
                                  const SimulationResult& result) {
  return Account(cluster, costs, deployment, result).run();
}

std::vector<Resource> lacking_memory(const Cluster& cluster, const SimulationResult& result) {
  Classes<std::string> kinds;
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    kinds.add(cluster.devices[d].kind, static_cast<std::int32_t>(d));
  }
  std::vector<Resource> all;
  for (const std::vector<std::int32_t>& members : kinds.members) {
    const auto lacking = [&](const DeviceMemory& memory) {
      return !memory.fits() && std::ranges::binary_search(members, memory.device);
    };
    if (std::ranges::none_of(result.memory, lacking)) continue;
    all.push_back({Resource::What::kMemory, "memory of " + cluster.devices[members[0]].kind, members});
  }
  return all;
}

}  // namespace motley
