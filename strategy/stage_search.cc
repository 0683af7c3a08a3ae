#include "strategy/stage_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "strategy/alike.h"
#include "strategy/work.h"

namespace motley {
namespace {

constexpr std::int32_t kMostStages = 16;
constexpr std::size_t kMostCounts = 128;    // of how many devices of each kind are taken
constexpr std::size_t kMostMixedKinds = 4;  // of more, mixed stages take all kinds
constexpr double kNearBest = 1.05;          // what is estimated to take longer than the best by more is not looked for
constexpr double kBucket = 25 << 20;        // bytes of gradients that are reduced together

// How many ways there are to take some units of each kind.
std::size_t count_ways(const std::vector<AlikeDevices>& kinds) {
  std::size_t ways = 1;
  for (const AlikeDevices& kind : kinds) ways = std::min(ways * (kind.units() + 1), 2 * kMostCounts);
  return ways;
}

}  // namespace

std::vector<AlikeDevices> devices_by_cost(const Evaluator& evaluator) {
  std::vector<AlikeDevices> kinds;
  for (std::vector<DeviceIndex>& devices : alike_devices(evaluator.cluster(), evaluator.costs(), Near::kAnywhere)) {
    const DeviceIndex first = devices.front();
    const Bytes memory = evaluator.cluster().devices[first].usable() - evaluator.costs().context(first);
    kinds.push_back({std::move(devices), static_cast<double>(memory.value)});
  }
  const auto can_grow = [](const AlikeDevices& kind) { return kind.unit < kind.devices.size(); };
  while (count_ways(kinds) > kMostCounts && std::ranges::any_of(kinds, can_grow)) {
    for (AlikeDevices& kind : kinds) kind.unit = std::min(2 * kind.unit, kind.devices.size());
  }
  return kinds;
}

StageSearch::StageSearch(const Evaluator& evaluator, const Chain& chain)
    : evaluator_(evaluator), chain_(chain), kinds_(devices_by_cost(evaluator)), crossing_(chain.crossing(1)) {
  for (const AlikeDevices& kind : kinds_) radix_.push_back(kind.units() + 1);
  counts_ = std::accumulate(radix_.begin(), radix_.end(), std::size_t{1}, std::multiplies<>());

  const std::vector<GroupWork> work =
      group_work(evaluator.graph(), evaluator.cluster(), evaluator.costs(), evaluator.batch());
  state_.assign(chain.size() + 1, 0);
  parameters_ = state_;
  update_.assign(kinds_.size(), state_);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const GroupWork& group = work[chain.group(i)];
    state_[i + 1] = state_[i] + static_cast<double>(group.state_bytes);
    parameters_[i + 1] = parameters_[i] + static_cast<double>(group.parameter_bytes);
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      update_[kind][i + 1] = update_[kind][i] + group.update_seconds[kinds_[kind].devices.front()];
    }
  }
  fastest_.assign(kinds_.size(), std::vector<double>(chain.size() + 1, kNever));
  for (std::int64_t samples = 1; samples <= evaluator.batch(); samples *= 4) {
    const Sums& sums = sums_of(samples);
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      for (std::size_t i = 0; i <= chain.size(); ++i) {
        fastest_[kind][i] = std::min(fastest_[kind][i], sums.passes[kind][i] / static_cast<double>(samples));
      }
    }
  }
  ways_.resize(kinds_.size());
  for (std::size_t from = 0; from < kinds_.size(); ++from) {
    for (std::size_t to = 0; to < kinds_.size(); ++to) {
      const DeviceIndex other = from == to ? kinds_[to].devices.back() : kinds_[to].devices.front();
      ways_[from].push_back(evaluator.cluster().route(kinds_[from].devices.front(), other));
    }
  }
  choose_cuts();
  list_options();
}

// All places, or of kCuts parts of equal work the place in each that least crosses.
void StageSearch::choose_cuts() {
  cuts_ = {0};
  const double part = fastest_[0].back() / static_cast<double>(kCuts);
  double window = -1;
  for (std::size_t i = 1; i < chain_.size(); ++i) {
    if (!chain_.may_cut(i)) continue;
    const double in = part > 0 ? std::floor(fastest_[0][i] / part) : 0;
    if (chain_.size() <= kCuts || in != window) {
      cuts_.push_back(i);
    } else if (crossing_[i] < crossing_[cuts_.back()]) {
      cuts_.back() = i;
    }
    window = in;
  }
  cuts_.push_back(chain_.size());
}

void StageSearch::list_options() {
  std::set<std::size_t> codes;
  std::size_t weight = 1;
  std::vector<std::size_t> weights;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    for (std::size_t units = 1; units < radix_[kind]; units *= 2) codes.insert(weight * units);
    codes.insert(weight * kinds_[kind].units());
    weights.push_back(weight);
    weight *= radix_[kind];
  }
  const std::size_t subsets = std::size_t{1} << std::min(kinds_.size(), std::size_t{kMostMixedKinds});
  for (std::size_t subset = 1; subset < subsets; ++subset) {
    for (std::size_t part = 1; part <= 4; part *= 2) {
      std::size_t code = 0;
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        const bool in = kinds_.size() > kMostMixedKinds || (subset >> kind & 1U) != 0;
        if (in) code += weights[kind] * (kinds_[kind].units() / part);
      }
      if (code > 0) codes.insert(code);
    }
  }
  offered_.assign(codes.begin(), codes.end());
}

const StageSearch::Sums& StageSearch::sums_of(std::int64_t samples) {
  const auto [known, fresh] = sums_.try_emplace(samples);
  Sums& sums = known->second;
  if (!fresh) return sums;
  const std::vector<GroupWork> work = group_work(evaluator_.graph(), evaluator_.cluster(), evaluator_.costs(), samples);
  sums.kept.assign(chain_.size() + 1, 0);
  sums.handed = sums.passing = sums.kept;
  sums.passes.assign(kinds_.size(), sums.kept);
  sums.forward = sums.passes;
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    const GroupWork& group = work[chain_.group(i)];
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const DeviceIndex device = kinds_[kind].devices.front();
      sums.passes[kind][i + 1] = sums.passes[kind][i] + group.seconds[device] - group.update_seconds[device];
      sums.forward[kind][i + 1] = sums.forward[kind][i] + group.forward_seconds[device];
    }
    sums.kept[i + 1] = sums.kept[i] + static_cast<double>(group.kept_bytes);
    sums.handed[i + 1] = sums.handed[i] + static_cast<double>(group.handed_bytes);
    sums.passing[i] = static_cast<double>(group.passing_bytes);
  }
  return sums;
}

// Whole samples that keep all devices equally long: first what is due by speed, rounded down, then one more for those
// that are done first.
void StageSearch::share_samples(Option& option) {
  const auto wide = [&](std::size_t kind) { return static_cast<double>(option.units[kind] * kinds_[kind].unit); };
  double speed = 0;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) speed += wide(kind) / fastest_[kind].back();
  option.samples.assign(kinds_.size(), 0);
  double left = static_cast<double>(samples_);
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (option.units[kind] == 0) continue;
    const double due = static_cast<double>(samples_) / speed / fastest_[kind].back();
    option.samples[kind] = std::max<std::int64_t>(1, std::isfinite(due) ? static_cast<std::int64_t>(due + 1e-9) : 1);
    left -= wide(kind) * static_cast<double>(option.samples[kind]);
  }
  while (left > 0) {
    std::size_t soonest = kinds_.size();
    double done = kNever;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const double then = static_cast<double>(option.samples[kind] + 1) * fastest_[kind].back();
      if (option.units[kind] == 0 || (soonest < kinds_.size() && then >= done)) continue;
      soonest = kind;
      done = then;
    }
    ++option.samples[soonest];
    left -= wide(soonest);
  }
}

std::vector<std::int64_t> StageSearch::micro_batches(std::int64_t most) {
  constexpr std::int64_t kSamples[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
  std::set<std::int64_t> numbers;
  const std::int64_t batch = evaluator_.batch();
  for (const std::size_t code : offered_) {
    std::vector<std::size_t> units;
    double slowest = 0;
    for (std::size_t kind = 0, left = code; kind < kinds_.size(); left /= radix_[kind++]) {
      units.push_back(left % radix_[kind]);
      if (units.back() > 0) slowest = std::max(slowest, fastest_[kind].back());
    }
    for (const std::int64_t samples : kSamples) {
      double together = 0;
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        if (units[kind] == 0) continue;
        const double times = fastest_[kind].back() > 0 ? slowest / fastest_[kind].back() : 1;
        together += static_cast<double>(units[kind] * kinds_[kind].unit) *
                    std::max(1.0, std::round(static_cast<double>(samples) * times));
      }
      const auto number = static_cast<std::int64_t>(std::ceil(static_cast<double>(batch) / together));
      if (number <= most && number <= batch) numbers.insert(number);
    }
  }
  return {numbers.begin(), numbers.end()};
}

const StageSearch::Option* StageSearch::option(std::size_t code) {
  const auto [known, fresh] = options_.try_emplace(code);
  Option& option = known->second;
  if (!fresh) return option.width == 0 ? nullptr : &option;
  std::size_t width = 0;
  std::size_t left = code;
  for (std::size_t kind = 0; kind < kinds_.size(); left /= radix_[kind++]) {
    option.units.push_back(left % radix_[kind]);
    width += option.units.back() * kinds_[kind].unit;
  }
  if (static_cast<std::int64_t>(width) > evaluator_.batch() / micro_batches_) return nullptr;  // the least of them
  option.width = width;
  share_samples(option);
  const double step = kBucket / static_cast<double>(width);
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    option.sums.push_back(option.units[kind] == 0 ? nullptr : &sums_of(option.samples[kind]));
    option.most = std::max(option.most, option.samples[kind]);
    if (option.units[kind] == 0) continue;
    const std::vector<DeviceIndex>& devices = kinds_[kind].devices;
    option.in_line = option.in_line || evaluator_.costs().messages(devices.front()).in_line;
    const std::size_t last = option.units[kind] * kinds_[kind].unit - 1;
    if (last > 0) {
      const auto way = evaluator_.cluster().route(devices.front(), devices[last]);
      const double rate = evaluator_.cluster().bandwidth(devices.front(), devices[last]).value;
      option.reduce_rate =
          std::max(option.reduce_rate, (step / rate + evaluator_.cluster().shortfall(way, step).value) / step);
    }
    for (std::size_t other = 0; other < kind; ++other) {
      if (option.units[other] == 0) continue;
      option.reduce_rate = std::max(option.reduce_rate, message_seconds(other, kind, step) / step);
    }
  }
  return &option;
}

double StageSearch::message_seconds(std::size_t from, std::size_t to, double bytes) const {
  const std::vector<ChannelIndex>& way = ways_[from][to];
  if (way.empty() || bytes <= 0) return 0;
  double rate = kNever;
  for (const ChannelIndex channel : way) rate = std::min(rate, evaluator_.cluster().bandwidth(channel).value);
  return bytes / rate + evaluator_.cluster().shortfall(way, bytes).value;
}

// Of the largest part that a device hands to the next stage.
double StageSearch::message(const Option& from, const Option& to, std::size_t cut) const {
  const double bytes = crossing_[cuts_[cut]] * static_cast<double>(std::max(from.most, to.most));
  double longest = 0;
  for (std::size_t a = 0; a < kinds_.size(); ++a) {
    for (std::size_t b = 0; b < kinds_.size(); ++b) {
      if (from.units[a] > 0 && to.units[b] > 0) longest = std::max(longest, message_seconds(a, b, bytes));
    }
  }
  return longest;
}

// Of the slowest of the stages for what is before a place, on devices that are not used, at best.
double StageSearch::least_left(std::size_t end, std::size_t used) const {
  double speed = 0;
  for (std::size_t kind = 0; kind < kinds_.size(); used /= radix_[kind++]) {
    const std::size_t left = (kinds_[kind].units() - used % radix_[kind]) * kinds_[kind].unit;
    if (left > 0) speed += static_cast<double>(left) / fastest_[kind][cuts_[end]];
  }
  return static_cast<double>(samples_) / speed;
}

void StageSearch::relax(std::int32_t k, std::size_t used, std::size_t end, std::size_t code, const Option& option) {
  const std::size_t places = cuts_.size();
  const State state = states_[k][used * places + end];
  const Option* const next = state.option == kNone ? nullptr : &options_.at(static_cast<std::size_t>(state.option));
  const double away = next == nullptr ? 0 : message(option, *next, end);
  const auto held = static_cast<double>(std::min<std::int64_t>(k + 1, micro_batches_));
  const auto wide = static_cast<double>(option.width);
  const double rest = std::max({state.rest, away, state.first + (next != nullptr && next->in_line ? 2 * away : 0)});
  std::vector<double> passing(kinds_.size(), 0), again(kinds_.size(), 0);  // of one group at a time
  for (std::size_t begin = end; begin-- > 0;) {
    bool recompute = false;
    double work = 0, worked_again = 0, update = 0;
    const double held_state = state_[cuts_[end]] - state_[cuts_[begin]];
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      if (option.units[kind] == 0) continue;
      const Sums& sums = *option.sums[kind];
      const auto between = [&](const std::vector<double>& by_place) {
        return by_place[cuts_[end]] - by_place[cuts_[begin]];
      };
      for (std::size_t i = cuts_[begin]; i < cuts_[begin + 1]; ++i) {
        passing[kind] = std::max(passing[kind], sums.passing[i]);
        again[kind] = std::max(again[kind], sums.kept[i + 1] - sums.kept[i]);
      }
      const double free = filled_ * kinds_[kind].memory - held_state - passing[kind];
      // What does not fit is made again: each group keeps what it hands on, and one at a time all the rest.
      if (between(sums.kept) * held > free) recompute = true;
      if (recompute && between(sums.handed) * held + again[kind] > free) return;  // longer ones need more
      work = std::max(work, between(sums.passes[kind]));
      worked_again = std::max(worked_again, between(sums.passes[kind]) + between(sums.forward[kind]));
      update = std::max(update, between(update_[kind]));
    }
    if (recompute) work = worked_again;
    const double reduce =
        2 * (wide - 1) / wide * (parameters_[cuts_[end]] - parameters_[cuts_[begin]]) * option.reduce_rate;
    State found{rest,
                work + (option.in_line ? 2 * away : 0),
                state.sum + work + 2 * away,
                std::max(state.end, reduce + update),
                static_cast<std::int32_t>(code),
                static_cast<std::int32_t>(end),
                recompute ? Recompute::kFull : Recompute::kNone};
    const double total = seconds(found);
    if (total > cutoff_) return;  // longer ones take longer
    if (begin > 0) {
      const double least = least_left(begin, used + code);
      const double at_best = static_cast<double>(micro_batches_ - 1) * std::max({found.rest, found.first, least}) +
                             found.sum + least + found.end;
      if (!(at_best <= cutoff_)) continue;
    } else {
      cutoff_ = std::min(cutoff_, kNearBest * total);
    }
    State& known = states_[k + 1][(used + code) * places + begin];
    if (!known.reached() || total < seconds(known)) known = found;
  }
}

std::vector<PlannedPipeline> StageSearch::run(std::int64_t micro_batches, double filled, double cutoff) {
  micro_batches_ = micro_batches;
  samples_ = (evaluator_.batch() + micro_batches - 1) / micro_batches;
  filled_ = filled;
  cutoff_ = cutoff;
  options_.clear();
  const std::size_t places = cuts_.size();
  const auto most =
      static_cast<std::int32_t>(std::min<std::size_t>({kMostStages, places - 1, evaluator_.cluster().devices.size()}));
  states_.resize(static_cast<std::size_t>(most) + 1);
  states_[0].assign(counts_ * places, State{});
  states_[0][places - 1] = {.rest = 0, .first = 0, .sum = 0};
  std::int32_t longest = 0;  // number of stages that any pipeline has
  while (longest < most && std::ranges::any_of(states_[longest], &State::reached)) {
    states_[longest + 1].assign(counts_ * places, State{});
    for (std::size_t used = 0; used < counts_; ++used) {
      std::vector<std::pair<std::size_t, const Option*>> free;  // devices that the next stage may take
      for (std::size_t end = 1; end < places; ++end) {
        if (!states_[longest][used * places + end].reached()) continue;
        if (free.empty()) free = free_options(used);
        for (const auto& [code, option] : free) relax(longest, used, end, code, *option);
      }
    }
    ++longest;
  }
  std::vector<PlannedPipeline> found;
  for (std::int32_t k = 1; k <= longest; ++k) {
    std::size_t best = counts_;
    for (std::size_t used = 0; used < counts_; ++used) {
      const State& state = states_[k][used * places];
      if (state.reached() && (best == counts_ || seconds(state) < seconds(states_[k][best * places]))) best = used;
    }
    if (best < counts_ && seconds(states_[k][best * places]) <= cutoff) found.push_back(trace(k, best));
  }
  return found;
}

std::vector<std::pair<std::size_t, const StageSearch::Option*>> StageSearch::free_options(std::size_t used) {
  std::vector<std::size_t> left;  // units, by kind
  std::set<std::size_t> codes;
  std::size_t all = 0;
  for (std::size_t kind = 0, of = used, weight = 1; kind < kinds_.size();
       of /= radix_[kind], weight *= radix_[kind++]) {
    left.push_back(kinds_[kind].units() - of % radix_[kind]);
    codes.insert(weight * left.back());
    all += weight * left.back();
  }
  codes.insert(all);
  const auto fits = [&](std::size_t code) {
    for (std::size_t kind = 0; kind < kinds_.size(); code /= radix_[kind++]) {
      if (code % radix_[kind] > left[kind]) return false;
    }
    return true;
  };
  for (const std::size_t code : offered_) {
    if (fits(code)) codes.insert(code);
  }
  codes.erase(0);
  std::vector<std::pair<std::size_t, const Option*>> free;
  for (const std::size_t code : codes) {
    if (const Option* const known = option(code)) free.emplace_back(code, known);
  }
  return free;
}

PlannedPipeline StageSearch::trace(std::int32_t k, std::size_t used) const {
  const std::size_t places = cuts_.size();
  PlannedPipeline pipeline{{}, micro_batches_, seconds(states_[k][used * places])};
  for (std::size_t begin = 0; k > 0; --k) {
    const State& state = states_[k][used * places + begin];
    const auto code = static_cast<std::size_t>(state.option), end = static_cast<std::size_t>(state.cut);
    const Option& option = options_.at(code);
    PlannedStage stage{cuts_[begin], cuts_[end], {}, option.samples, state.recompute};
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      stage.width.push_back(option.units[kind] * kinds_[kind].unit);
    }
    pipeline.stages.push_back(std::move(stage));
    used -= code;
    begin = end;
  }
  return pipeline;
}

}  // namespace motley
