#include "compiler/placement.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "base/error.h"

namespace motley {

void check_fit(const CompilerTables& tables, const Strategy& strategy) {
  const Graph& graph = tables.graph;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kInvalidInput, "strategy \"" + strategy.name + "\" " + why);
  };
  if (strategy.groups.size() != graph.groups.size()) {
    refuse("decides on " + std::to_string(strategy.groups.size()) + " op groups, but the graph has " +
           std::to_string(graph.groups.size()) + ": make the strategy for this graph");
  }
  if (strategy.bucket.value <= 0) refuse("has a bucket of " + std::to_string(strategy.bucket.value) + " bytes");
  if (strategy.micro_batches < 1) {
    refuse("divides the batch in " + std::to_string(strategy.micro_batches) + " micro-batches: 1 is the least");
  }
  for (std::size_t g = 0; g < strategy.groups.size(); ++g) {
    const std::string group = "group " + std::to_string(g) + " (" + graph.groups[g].name + ")";
    const std::vector<Share>& shares = strategy.groups[g].shares;
    if (strategy.groups[g].stage < 0) refuse("puts " + group + " in a stage below 0");
    if (shares.empty()) refuse("gives " + group + " no device");
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (shares[i].device < 0 || shares[i].device >= tables.devices()) {
        refuse("places " + group + " on device " + std::to_string(shares[i].device) + ", but the cluster has " +
               std::to_string(tables.devices()));
      }
      if (i > 0 && shares[i - 1].device >= shares[i].device) {
        refuse("must list the devices of " + group + " once each, ascending");
      }
      if (!(shares[i].weight > 0) || !std::isfinite(shares[i].weight)) {
        refuse("gives " + group + " a share of " + std::to_string(shares[i].weight) + "; shares are above 0");
      }
    }
  }
  std::vector<std::int32_t> stages;
  for (const GroupDecision& group : strategy.groups) stages.push_back(group.stage);
  std::sort(stages.begin(), stages.end());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::int32_t expected = s == 0 ? 0 : stages[s - 1] + 1;
    if (stages[s] > expected)
      refuse("has no group in stage " + std::to_string(expected) + ": number them without gaps");
  }
  for (const auto& [from, to] : tables.group_edges) {
    const std::int32_t before = strategy.groups[static_cast<std::size_t>(from)].stage;
    const std::int32_t after = strategy.groups[static_cast<std::size_t>(to)].stage;
    if (before <= after) continue;
    refuse("puts group " + std::to_string(from) + " (" + graph.groups[static_cast<std::size_t>(from)].name +
           ") in stage " + std::to_string(before) + ", but group " + std::to_string(to) + " (" +
           graph.groups[static_cast<std::size_t>(to)].name + "), which uses what it makes, in stage " +
           std::to_string(after) + ": stages follow the flow of the forward pass");
  }
}

namespace {

std::string no_split(const CompilerTables& tables, std::size_t group, std::size_t replicas, std::int64_t batch) {
  return "group " + tables.graph.groups[group].name + " has " + std::to_string(replicas) + " replicas for a batch of " +
         std::to_string(batch) + ": use fewer devices, fewer micro-batches or a larger batch";
}

std::string outside_range(const CompilerTables& tables, std::size_t group, const Replica& replica) {
  const Graph& graph = tables.graph;
  const bool few = replica.samples() < graph.min_batch;
  return "group " + graph.groups[group].name + " gets " + std::to_string(replica.samples()) + " samples on " +
         tables.cluster.devices[static_cast<std::size_t>(replica.device)].name + ", but the model takes at " +
         (few ? "least " + std::to_string(graph.min_batch) + ": use fewer devices or a larger batch"
              : "most " + std::to_string(graph.max_batch) + ": use more devices or a smaller batch");
}

}  // namespace

std::variant<Placement, NotCompilable> Placement::make(const CompilerTables& tables, const Strategy& strategy,
                                                       std::int64_t begin, std::int64_t samples) {
  const Graph& graph = tables.graph;
  Placement placement;
  for (std::size_t g = 0; g < strategy.groups.size(); ++g) {
    const std::vector<Share>& shares = strategy.groups[g].shares;
    if (g > 0 && shares == strategy.groups[g - 1].shares) {
      placement.slots_.push_back(placement.slots_.back());
      continue;
    }
    const std::vector<std::int64_t> parts = split_batch(shares, samples);
    if (parts.empty()) return NotCompilable{no_split(tables, g, shares.size(), samples)};
    std::vector<Replica> replicas;
    std::int64_t first = begin;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      replicas.push_back({shares[i].device, first, first + parts[i]});
      first += parts[i];
      if (replicas.back().samples() < graph.min_batch ||
          (graph.max_batch > 0 && replicas.back().samples() > graph.max_batch)) {
        return NotCompilable{outside_range(tables, g, replicas.back())};
      }
    }
    const auto equal = [&](const Slot& slot) {
      return std::equal(replicas.begin(), replicas.end(), placement.replicas_.begin() + slot.first,
                        placement.replicas_.begin() + slot.first + slot.count);
    };
    const auto known = std::find_if(placement.slots_.begin(), placement.slots_.end(), equal);
    if (known != placement.slots_.end()) {
      placement.slots_.push_back(Slot(*known));
      continue;
    }
    placement.slots_.push_back(
        {static_cast<std::int32_t>(placement.replicas_.size()), static_cast<std::int32_t>(replicas.size())});
    placement.replicas_.insert(placement.replicas_.end(), replicas.begin(), replicas.end());
  }
  const OpId loss_maker = graph.tensors[static_cast<std::size_t>(graph.loss)].producer;
  if (graph.tensors[static_cast<std::size_t>(graph.loss)].layout.kind == BatchLayout::Kind::kMixed) {
    const GroupId group = graph.ops[static_cast<std::size_t>(loss_maker)].group;
    if (strategy.groups[static_cast<std::size_t>(group)].shares.size() > 1 || strategy.micro_batches > 1) {
      return NotCompilable{"group " + graph.groups[static_cast<std::size_t>(group)].name +
                           " compares samples with each other, so its parts would compute another loss: place it "
                           "on one device, with one micro-batch"};
    }
  }
  for (const Bond& bond : tables.bonds) {
    if (placement.same(bond.maker, bond.user)) continue;
    return NotCompilable{"tensor " + graph.tensors[static_cast<std::size_t>(bond.tensor)].name + " of group " +
                         graph.groups[static_cast<std::size_t>(bond.maker)].name +
                         " cannot be cut along the batch, but group " +
                         graph.groups[static_cast<std::size_t>(bond.user)].name +
                         " uses it under another placement: give both groups the same shares"};
  }
  placement.take_seats(tables.devices());
  return placement;
}

Placement Placement::moved(std::int64_t samples) const {
  Placement other = *this;
  for (Replica& replica : other.replicas_) {
    replica.begin += samples;
    replica.end += samples;
  }
  return other;
}

void Placement::take_seats(DeviceIndex devices) {
  constexpr std::int32_t kTaken = 0;
  seat_.assign(static_cast<std::size_t>(devices), kNone);
  for (const Replica& replica : replicas_) seat_[static_cast<std::size_t>(replica.device)] = kTaken;
  seats_ = 0;
  for (std::int32_t& seat : seat_) {
    if (seat == kTaken) seat = seats_++;
  }
}

bool Placement::members_work_alike(const CompilerTables& tables) const {
  const auto delayed = [&](const Replica& replica) {
    const MessageCosts messages = tables.costs.messages(replica.device);
    return messages.work > Seconds(0) || messages.work_per_byte > Seconds(0) || messages.pause > Seconds(0);
  };
  const auto on_cpu = [&](const Replica& replica) {
    return tables.cluster.devices[static_cast<std::size_t>(replica.device)].is_cpu();
  };
  return std::ranges::none_of(replicas_, delayed) || std::ranges::any_of(replicas_, on_cpu);
}

void Placement::fold(const CompilerTables& tables, const Strategy& strategy) {
  const auto elsewhere = [&](const Slot& slot) { return slot.first != slots_[0].first; };
  const auto served = [](const GroupDecision& group) { return group.gradient != GradientMethod::kAllReduce; };
  if (slots_.empty() || std::ranges::any_of(slots_, elsewhere) || std::ranges::any_of(strategy.groups, served)) return;
  if (!members_work_alike(tables)) return;
  std::map<std::tuple<std::int32_t, Bytes, Bytes, std::int64_t>, DeviceIndex> first_alike;
  std::vector<Replica> kept;
  for (const Replica& replica : replicas_) {
    const Device& device = tables.cluster.devices[static_cast<std::size_t>(replica.device)];
    const auto [first, fresh] = first_alike.try_emplace(
        {tables.costs.cost_class(replica.device), device.memory, device.usable(), replica.samples()}, replica.device);
    if (fresh || kept.size() < 2) {
      kept.push_back(replica);
    } else {
      twins_[first->second].push_back(replica.device);
    }
  }
  if (twins_.empty()) return;
  for (const Replica& replica : replicas_) everyone_.push_back(replica.device);
  replicas_ = std::move(kept);
  for (Slot& slot : slots_) slot.count = static_cast<std::int32_t>(replicas_.size());
  take_seats(tables.devices());
}

std::span<const DeviceIndex> Placement::twins(DeviceIndex device) const {
  const auto found = twins_.find(device);
  return found == twins_.end() ? std::span<const DeviceIndex>() : found->second;
}

}  // namespace motley
