#include "strategy/search/moves.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "strategy/alike.h"
#include "strategy/baselines.h"

namespace motley {

namespace {

// std::uniform_int_distribution may differ between standard libraries; plans must not.
std::size_t below(std::size_t count, std::mt19937_64& random) { return static_cast<std::size_t>(random() % count); }
bool one_in(std::size_t count, std::mt19937_64& random) { return below(count, random) == 0; }

std::vector<DeviceIndex> devices_of(const GroupDecision& decision) {
  std::vector<DeviceIndex> devices;
  devices.reserve(decision.shares.size());
  for (const Share& share : decision.shares) devices.push_back(share.device);
  return devices;
}

}  // namespace

GroupDecision in_samples(GroupDecision decision, std::int64_t batch) {
  const std::vector<std::int64_t> samples = split_batch(decision.shares, batch);
  for (std::size_t s = 0; s < samples.size(); ++s) decision.shares[s].weight = static_cast<double>(samples[s]);
  return decision;
}

Strategy in_samples(const Strategy& strategy, std::int64_t batch) {
  Strategy result = strategy;
  for (std::size_t g = 0; g < result.groups.size(); ++g) {
    // Most neighbours decide alike.
    result.groups[g] = g > 0 && strategy.groups[g] == strategy.groups[g - 1] ? result.groups[g - 1]
                                                                             : in_samples(strategy.groups[g], batch);
  }
  return result;
}

std::uint64_t fingerprint(const Strategy& strategy) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a, a word at a time
  const auto add = [&](std::uint64_t word) {
    hash = (hash ^ word) * 1099511628211U;
    hash ^= hash >> 29;
  };
  add(static_cast<std::uint64_t>(strategy.bucket.value));
  add(static_cast<std::uint64_t>(strategy.micro_batches));
  if (strategy.micro_batches > 1) add(std::hash<std::string>{}(strategy.schedule));
  for (const GroupDecision& decision : strategy.groups) {
    add(decision.shares.size());
    if (strategy.micro_batches > 1) add(static_cast<std::uint64_t>(decision.stage));
    add(static_cast<std::uint64_t>(decision.recompute));
    if (decision.shares.size() > 1) add(static_cast<std::uint64_t>(decision.gradient));
    for (const Share& share : decision.shares) {
      add(static_cast<std::uint64_t>(share.device));
      if (decision.shares.size() > 1) add(std::bit_cast<std::uint64_t>(share.weight));
    }
  }
  return hash;
}

Strategy rebalanced(const Evaluation& evaluation, std::int64_t batch) {
  Strategy strategy = in_samples(evaluation.strategy, batch);
  const SimulationResult& simulation = evaluation.simulation;
  double mean = 0;
  for (const Seconds& busy : simulation.busy) mean += busy.value / static_cast<double>(simulation.busy.size());
  const auto device_of = [](const DeviceMemory& memory) { return memory.device; };
  for (GroupDecision& decision : strategy.groups) {
    for (Share& share : decision.shares) {
      const auto place = std::ranges::lower_bound(simulation.memory, share.device, {}, device_of);
      if (place == simulation.memory.end() || place->device != share.device) continue;
      const double busy = simulation.busy[static_cast<std::size_t>(place - simulation.memory.begin())].value;
      if (busy > 0) share.weight *= mean / busy;
    }
  }
  return in_samples(strategy, batch);
}

bool has_gap(const Strategy& strategy) {
  std::vector<char> stages(strategy.groups.size(), 0);
  for (const GroupDecision& group : strategy.groups) stages[group.stage] = 1;
  return !std::ranges::is_sorted(stages, std::greater());
}

Moves::Moves(const Evaluator& evaluator, const std::vector<GroupWork>& work)
    : evaluator_(evaluator),
      alike_(alike_devices(evaluator.cluster(), evaluator.costs())),
      order_(model_order(evaluator.graph())),
      edges_(edges_between_groups(evaluator.graph())) {
  for (double seconds : iteration_seconds(work, evaluator.cluster())) speed_.push_back(seconds > 0 ? 1 / seconds : 1);
}

// The groups that one change is made to: all; all that decide alike; neighbours that decide alike; a window.
std::vector<GroupId> Moves::scope(const Decisions& groups, Random& random) const {
  const std::size_t n = order_.size(), at = below(n, random);
  const GroupDecision& decision = groups[order_[at]];
  const auto alike = [&](std::size_t place) { return groups[order_[place]] == decision; };
  switch (below(4, random)) {
    case 0:
      return order_;
    case 1: {
      std::vector<GroupId> same;
      for (std::size_t place = 0; place < n; ++place) {
        if (alike(place)) same.push_back(order_[place]);
      }
      return same;
    }
    case 2: {
      std::size_t begin = at, end = at + 1;
      while (begin > 0 && alike(begin - 1)) --begin;
      while (end < n && alike(end)) ++end;
      return {order_.begin() + static_cast<std::ptrdiff_t>(begin), order_.begin() + static_cast<std::ptrdiff_t>(end)};
    }
    default: {
      std::size_t length = 1;
      while (length < n && !one_in(3, random)) length *= 2;
      const std::size_t end = std::min(n, at + length);
      return {order_.begin() + static_cast<std::ptrdiff_t>(at), order_.begin() + static_cast<std::ptrdiff_t>(end)};
    }
  }
}

// Where work should leave: a device of `decision` that lacks memory, or else mostly the busiest.
DeviceIndex Moves::pressed_device(const Evaluation& from, const GroupDecision& decision, Random& random) const {
  DeviceIndex pressed = decision.shares[below(decision.shares.size(), random)].device;
  if (one_in(3, random)) return pressed;
  double most = -1;
  for (std::size_t p = 0; p < from.simulation.memory.size(); ++p) {
    const DeviceMemory& memory = from.simulation.memory[p];
    const auto device_of = [](const Share& share) { return share.device; };
    if (!std::ranges::binary_search(decision.shares, memory.device, {}, device_of)) continue;
    const double pressure = memory.fits() ? from.simulation.busy[p].value : 1e18 * (memory.peak / memory.capacity);
    if (pressure > most) {
      most = pressure;
      pressed = memory.device;
    }
  }
  return pressed;
}

GroupDecision Moves::proportional(std::vector<DeviceIndex> devices, GradientMethod method) const {
  std::sort(devices.begin(), devices.end());
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, evaluator_.batch()));
  if (devices.size() > most) devices.resize(most);
  GroupDecision decision;
  decision.gradient = method;
  for (DeviceIndex device : devices) decision.shares.push_back({device, speed_[device]});
  return in_samples(std::move(decision), evaluator_.batch());
}

// Some of one device's samples go to another, which may be new to the group; the one may leave it.
GroupDecision Moves::shift_samples(const Evaluation& from, GroupDecision decision, Random& random) const {
  const DeviceIndex source = pressed_device(from, decision, random);
  const bool join = decision.shares.size() == 1 || one_in(4, random);
  const auto target = join ? static_cast<DeviceIndex>(below(speed_.size(), random))
                           : decision.shares[below(decision.shares.size(), random)].device;
  if (source == target) return decision;
  auto& shares = decision.shares;
  const auto by_device = [](const Share& share, DeviceIndex device) { return share.device < device; };
  auto to = std::lower_bound(shares.begin(), shares.end(), target, by_device);
  if (to == shares.end() || to->device != target) to = shares.insert(to, {target, 0.0});
  const auto target_place = to - shares.begin();
  const auto source_place = std::lower_bound(shares.begin(), shares.end(), source, by_device) - shares.begin();
  const double part = std::ldexp(1.0, -static_cast<int>(below(7, random)));  // all, a half, ... a 64th
  const double moved = std::max(1.0, std::floor(shares[source_place].weight * part));
  shares[target_place].weight += moved;
  shares[source_place].weight -= moved;
  if (shares[source_place].weight <= 0) shares.erase(shares.begin() + source_place);
  return decision;
}

// Of devices that are alike, other ones: none, all, or a half, a quarter, ... of them.
GroupDecision Moves::others_alike(const GroupDecision& old, Random& random) const {
  const std::vector<DeviceIndex>& alike = alike_[below(alike_.size(), random)];
  std::vector<DeviceIndex> devices = devices_of(old);
  std::erase_if(devices, [&](DeviceIndex device) { return std::ranges::binary_search(alike, device); });
  const std::size_t count = one_in(3, random) ? 0 : alike.size() >> below(6, random);
  devices.insert(devices.end(), alike.begin(), alike.begin() + static_cast<std::ptrdiff_t>(count));
  return devices.empty() ? old : proportional(std::move(devices), old.gradient);
}

GroupDecision Moves::changed(const Evaluation& from, const GroupDecision& old, Random& random) const {
  std::vector<DeviceIndex> devices = devices_of(old);
  if (speed_.size() > kManyDevices) return others_alike(old, random);
  switch (below(7, random)) {
    case 0: {  // one leaves
      if (devices.size() == 1) break;
      std::erase(devices, pressed_device(from, old, random));
      return proportional(std::move(devices), old.gradient);
    }
    case 1: {  // one joins
      const auto joins = static_cast<DeviceIndex>(below(speed_.size(), random));
      if (std::find(devices.begin(), devices.end(), joins) != devices.end()) break;
      devices.push_back(joins);
      return proportional(std::move(devices), old.gradient);
    }
    case 2:  // one stays
      return proportional({one_in(2, random) ? static_cast<DeviceIndex>(below(speed_.size(), random))
                                             : devices[below(devices.size(), random)]},
                          old.gradient);
    case 3: {  // any set
      std::vector<DeviceIndex> chosen;
      for (std::size_t device = 0; device < speed_.size(); ++device) {
        if (one_in(2, random)) chosen.push_back(static_cast<DeviceIndex>(device));
      }
      if (chosen.empty()) break;
      return proportional(std::move(chosen), old.gradient);
    }
    case 4: {
      if (devices.size() == 1) break;
      GroupDecision other = old;
      other.gradient =
          old.gradient == GradientMethod::kAllReduce ? GradientMethod::kParameterServer : GradientMethod::kAllReduce;
      return other;
    }
    default:
      break;
  }
  return shift_samples(from, old, random);
}

// Where two neighbours decide differently, one's decision spreads over some of the other's groups.
void Moves::move_boundary(Decisions& groups, Random& random) const {
  std::vector<std::size_t> boundaries;
  for (std::size_t place = 1; place < order_.size(); ++place) {
    if (groups[order_[place]] != groups[order_[place - 1]]) boundaries.push_back(place);
  }
  if (boundaries.empty()) return;
  const std::size_t boundary = boundaries[below(boundaries.size(), random)];
  std::size_t length = 1;
  while (!one_in(2, random)) length *= 2;
  if (one_in(2, random)) {
    const std::size_t end = std::min(order_.size(), boundary + length);
    for (std::size_t place = boundary; place < end; ++place) groups[order_[place]] = groups[order_[boundary - 1]];
  } else {
    for (std::size_t place = boundary; place > 0 && length-- > 0; --place) {
      groups[order_[place - 1]] = groups[order_[boundary]];
    }
  }
}

void Moves::copy_neighbour(Decisions& groups, Random& random) const {
  if (order_.size() < 2) return;
  const std::size_t place = below(order_.size(), random);
  const std::size_t neighbour = place == 0 || (place + 1 < order_.size() && one_in(2, random)) ? place + 1 : place - 1;
  groups[order_[place]] = groups[order_[neighbour]];
}

// The nearest number of micro-batches that leaves every replica a sample.
std::int64_t Moves::possible(const Strategy& strategy, std::int64_t micro_batches) const {
  std::size_t widest = 1;
  for (const GroupDecision& group : strategy.groups) widest = std::max(widest, group.shares.size());
  const std::int64_t most = evaluator_.batch() / static_cast<std::int64_t>(widest);
  return std::clamp<std::int64_t>(micro_batches, 1, std::max<std::int64_t>(1, most));
}

std::int64_t Moves::doubled_or_halved_micro_batches(const Strategy& strategy, Random& random) const {
  return possible(strategy, one_in(2, random) ? strategy.micro_batches * 2 : strategy.micro_batches / 2);
}

// More or fewer micro-batches, another schedule, another cut, or two stages that change places on the devices.
Strategy Moves::propose_pipeline(Strategy strategy, Random& random) const {
  constexpr std::array kSchedules = {"1f1b", "zb-h1", "zb-h2", "gpipe", "graphpipe"};
  switch (below(9, random)) {
    case 8: {
      const std::int32_t stage = strategy.groups[below(order_.size(), random)].stage;
      const auto recompute = static_cast<Recompute>(below(3, random));
      for (GroupDecision& group : strategy.groups) {
        if (group.stage == stage) group.recompute = recompute;
      }
      return strategy;
    }
    case 0:
      strategy.micro_batches = doubled_or_halved_micro_batches(strategy, random);
      return strategy;
    case 1:
      strategy.micro_batches = possible(strategy, strategy.micro_batches + (one_in(2, random) ? 1 : -1));
      return strategy;
    case 2:
      strategy.schedule = kSchedules[below(kSchedules.size(), random)];
      return strategy;
    case 3: {
      const GroupDecision a = strategy.groups[below(order_.size(), random)];
      const GroupDecision b = strategy.groups[below(order_.size(), random)];
      for (GroupDecision& group : strategy.groups) {
        if (group.stage == a.stage) {
          group.shares = b.shares;
        } else if (group.stage == b.stage) {
          group.shares = a.shares;
        }
      }
      return strategy;
    }
    default:
      break;
  }
  Decisions before = strategy.groups;
  move_boundary(strategy.groups, random);
  const auto backwards = [&](const std::pair<GroupId, GroupId>& edge) {
    return strategy.groups[edge.first].stage > strategy.groups[edge.second].stage;
  };
  if (has_gap(strategy) || std::ranges::any_of(edges_, backwards)) strategy.groups = std::move(before);
  return strategy;
}

std::vector<GroupId> Moves::neighbourhood(const Evaluation& from, Random& random) const {
  const std::size_t n = order_.size();
  const GroupDecision& decision = from.strategy.groups[order_[below(n, random)]];
  if (one_in(3, random) && !from.not_compilable) {
    const DeviceIndex device = pressed_device(from, decision, random);
    std::vector<GroupId> there;
    for (const GroupId group : order_) {
      const auto holds = [&](const Share& share) { return share.device == device; };
      if (std::ranges::any_of(from.strategy.groups[group].shares, holds)) there.push_back(group);
    }
    return there;
  }
  std::size_t length = 1;
  while (length < n && !one_in(3, random)) length *= 2;
  const std::size_t begin = below(n, random), end = std::min(n, begin + length);
  return {order_.begin() + static_cast<std::ptrdiff_t>(begin), order_.begin() + static_cast<std::ptrdiff_t>(end)};
}

Strategy Moves::propose(const Evaluation& from, Random& random) const {
  Strategy strategy = from.strategy;
  if (has_stages(strategy)) return propose_pipeline(std::move(strategy), random);
  switch (below(14, random)) {
    case 13: {
      const auto recompute = static_cast<Recompute>(below(3, random));
      for (const GroupId group : scope(strategy.groups, random)) strategy.groups[group].recompute = recompute;
      return strategy;
    }
    case 12:
      strategy.micro_batches = doubled_or_halved_micro_batches(strategy, random);
      return strategy;
    case 0:
      strategy.bucket = one_in(2, random)
                            ? Bytes(std::max<std::int64_t>(1 << 16, strategy.bucket.value / 2))
                            : Bytes(std::min<std::int64_t>(std::int64_t{1} << 34, strategy.bucket.value * 2));
      return strategy;
    case 1:
    case 2:
      move_boundary(strategy.groups, random);
      return strategy;
    case 3:
      copy_neighbour(strategy.groups, random);
      return strategy;
    case 4:
      if (!from.not_compilable) return rebalanced(from, evaluator_.batch());
      [[fallthrough]];
    default:
      break;
  }
  // The change is drawn once: groups that decided alike still do, so that no transfers come between them.
  const std::vector<GroupId> chosen = scope(strategy.groups, random);
  const Random state = random;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    GroupDecision& decision = strategy.groups[chosen[i]];
    const GroupDecision& before = from.strategy.groups[chosen[i]];
    if (i > 0 && before == from.strategy.groups[chosen[i - 1]]) {
      decision = strategy.groups[chosen[i - 1]];
      continue;
    }
    random = state;
    decision = changed(from, before, random);
  }
  strategy.micro_batches = possible(strategy, strategy.micro_batches);
  return strategy;
}

}  // namespace motley
