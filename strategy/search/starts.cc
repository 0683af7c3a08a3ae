#include "strategy/search/starts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "strategy/alike.h"
#include "strategy/baselines.h"
#include "strategy/search/moves.h"

namespace motley {

namespace {

using Devices = std::vector<DeviceIndex>;

// Devices that are alike are one choice: the fastest sets of them together, and of each set powers of two beside all
// that are faster.
std::set<Devices> many_device_sets(const Cluster& cluster, const CostModel& costs, const std::vector<double>& seconds) {
  std::vector<Devices> alike = alike_devices(cluster, costs);
  std::ranges::stable_sort(alike, {}, [&](const Devices& devices) { return seconds[devices[0]]; });
  std::set<Devices> sets;
  Devices faster;
  for (const Devices& devices : alike) {
    for (std::size_t count = devices.size(); count > 0; count = count == 1 ? 0 : std::bit_floor(count - 1)) {
      Devices set = faster;
      set.insert(set.end(), devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(count));
      std::sort(set.begin(), set.end());
      sets.insert(std::move(set));
    }
    sets.insert(devices);
    faster.insert(faster.end(), devices.begin(), devices.end());
  }
  return sets;
}

std::set<Devices> device_sets(const Cluster& cluster, const CostModel& costs, const std::vector<double>& seconds) {
  const std::size_t n = cluster.devices.size();
  std::set<Devices> sets;
  constexpr std::size_t kAllSubsets = 4;
  if (n <= kAllSubsets) {
    for (std::uint32_t bits = 1; bits < (1U << n); ++bits) {
      Devices devices;
      for (std::size_t d = 0; d < n; ++d) {
        if ((bits >> d & 1U) != 0) devices.push_back(static_cast<DeviceIndex>(d));
      }
      sets.insert(devices);
    }
    return sets;
  }
  if (n > kManyDevices) return many_device_sets(cluster, costs, seconds);
  Devices by_speed(n);
  std::iota(by_speed.begin(), by_speed.end(), 0);
  std::stable_sort(by_speed.begin(), by_speed.end(),
                   [&](DeviceIndex a, DeviceIndex b) { return seconds[a] < seconds[b]; });
  for (std::size_t count = 1; count <= n; ++count) {
    Devices devices(by_speed.begin(), by_speed.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(devices.begin(), devices.end());
    sets.insert(devices);
  }
  for (const Node& node : cluster.nodes) {
    Devices devices = node.devices;
    std::sort(devices.begin(), devices.end());
    if (!devices.empty()) sets.insert(devices);
  }
  std::map<std::string, Devices> by_kind;
  for (std::size_t d = 0; d < n; ++d) by_kind[cluster.devices[d].kind].push_back(static_cast<DeviceIndex>(d));
  for (const auto& [kind, devices] : by_kind) sets.insert(devices);
  return sets;
}

}  // namespace

std::vector<Strategy> data_parallel_starts(const Evaluator& evaluator, const std::vector<GroupWork>& work) {
  const std::vector<double> seconds = iteration_seconds(work, evaluator.cluster());
  std::vector<Strategy> starts;
  for (const Devices& devices : device_sets(evaluator.cluster(), evaluator.costs(), seconds)) {
    for (GradientMethod method : {GradientMethod::kAllReduce, GradientMethod::kParameterServer}) {
      const bool few = devices.size() > 1 && devices.size() <= kManyDevices;
      if (!few && method == GradientMethod::kParameterServer) continue;  // no gradients meet, or too many
      if (devices.size() > static_cast<std::size_t>(evaluator.batch())) continue;
      GroupDecision decision;
      decision.gradient = method;
      for (DeviceIndex device : devices) {
        decision.shares.push_back({device, seconds[device] > 0 ? 1 / seconds[device] : 1});
      }
      starts.push_back(in_samples(uniform_strategy("search", evaluator.graph(), decision), evaluator.batch()));
    }
  }
  return starts;
}

std::vector<Strategy> fitting_starts(const std::vector<Evaluation>& starts, std::int64_t batch) {
  std::vector<const Evaluation*> lacking;
  for (const Evaluation& start : starts) {
    if (!start.not_compilable && !start.feasible()) lacking.push_back(&start);
  }
  std::ranges::stable_sort(lacking, {}, [](const Evaluation* one) { return one->simulation.iteration; });
  constexpr std::size_t kFitted = 4;
  if (lacking.size() > kFitted) lacking.resize(kFitted);
  std::vector<Strategy> fitting;
  for (const Evaluation* one : lacking) {
    double times = 1;  // the memory of the fullest device
    for (const DeviceMemory& memory : one->simulation.memory) {
      times = std::max(times, memory.peak / (memory.peak - memory.lacking()));
    }
    std::size_t widest = 1;
    for (const GroupDecision& group : one->strategy.groups) widest = std::max(widest, group.shares.size());
    // The state needs its memory however the batch passes: twice as many micro-batches may be needed.
    const auto enough = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::ceil(times))));
    for (const auto& [micro_batches, recompute] :
         {std::pair{enough, Recompute::kNone}, std::pair{2 * enough, Recompute::kNone},
          std::pair{enough / 2, Recompute::kSelective}, std::pair{enough / 2, Recompute::kFull},
          std::pair{enough, Recompute::kFull}}) {
      if (micro_batches < 1 || micro_batches * static_cast<std::int64_t>(widest) > batch) continue;
      Strategy strategy = one->strategy;
      strategy.micro_batches = micro_batches;
      for (GroupDecision& group : strategy.groups) group.recompute = recompute;
      fitting.push_back(std::move(strategy));
    }
  }
  return fitting;
}

std::vector<Strategy> parameter_heavy_starts(const Evaluator& evaluator, const std::vector<GroupWork>& work,
                                             const Strategy& best) {
  std::vector<GroupId> heavy;
  for (std::size_t g = 0; g < work.size(); ++g) {
    if (work[g].parameter_bytes > 0 && best.groups[g].shares.size() > 1) heavy.push_back(static_cast<GroupId>(g));
  }
  const auto heaviness = [&](GroupId group) {
    const double seconds = *std::min_element(work[group].seconds.begin(), work[group].seconds.end());
    return static_cast<double>(work[group].parameter_bytes) / std::max(seconds, 1e-12);
  };
  std::stable_sort(heavy.begin(), heavy.end(), [&](GroupId a, GroupId b) { return heaviness(a) > heaviness(b); });

  std::vector<Strategy> starts;
  for (std::size_t count = 1; count <= std::min<std::size_t>(heavy.size(), 16); count *= 2) {
    Strategy gathered = best, served = best;
    for (std::size_t i = 0; i < count; ++i) {
      GroupDecision& decision = gathered.groups[heavy[i]];
      const auto& seconds = work[heavy[i]].seconds;
      const Share fastest =
          *std::min_element(decision.shares.begin(), decision.shares.end(),
                            [&](const Share& a, const Share& b) { return seconds[a.device] < seconds[b.device]; });
      decision.shares = {{fastest.device, static_cast<double>(evaluator.batch())}};
      GradientMethod& method = served.groups[heavy[i]].gradient;
      method = method == GradientMethod::kAllReduce ? GradientMethod::kParameterServer : GradientMethod::kAllReduce;
    }
    starts.push_back(std::move(gathered));
    starts.push_back(std::move(served));
  }
  return starts;
}

std::vector<Strategy> cut_starts(const Evaluator& evaluator, const std::vector<GroupDecision>& sides) {
  const std::vector<GroupId> order = model_order(evaluator.graph());
  std::vector<Strategy> starts;
  constexpr std::size_t kParts = 4;
  for (const GroupDecision& before : sides) {
    for (const GroupDecision& behind : sides) {
      if (before == behind) continue;
      for (std::size_t part = 1; part < kParts; ++part) {
        Strategy strategy = uniform_strategy("search", evaluator.graph(), behind);
        for (std::size_t place = 0; place < order.size() * part / kParts; ++place) {
          strategy.groups[order[place]] = before;
        }
        starts.push_back(std::move(strategy));
      }
    }
  }
  return starts;
}

}  // namespace motley
