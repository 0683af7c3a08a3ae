#include "strategy/pipelines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "strategy/baselines.h"
#include "strategy/work.h"

namespace motley {

namespace {

constexpr std::int64_t kMostMicroBatches = 64;
constexpr std::size_t kStarts = 8;  // of each of the next
// Of a device's memory, for what the sums of this search count. The rest, if any, is for workspaces, buffers of
// messages and what the allocator loses; the simulation tells how much that is.
constexpr double kFilled[] = {1, 0.8};
constexpr std::int32_t kMostStages = 16;
constexpr std::size_t kMostCounts = 128;   // of how many devices of each kind are taken
constexpr std::size_t kMostDevices = 256;  // beyond, a pipeline takes too long to simulate for a search

// The model as a chain of groups, and where it may be cut.
class Chain {
 public:
  explicit Chain(const Graph& graph) : graph_(graph), order_(model_order(graph)), place_(order_.size()) {
    for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
    may_cut_.assign(order_.size() + 1, 1);
    for (const auto& [from, to] : edges_between_groups(graph)) {
      for (std::size_t i = place_[to] + 1; i <= place_[from]; ++i) may_cut_[i] = 0;  // it flows back: one stage
    }
  }

  std::size_t size() const { return order_.size(); }
  GroupId group(std::size_t place) const { return order_[place]; }
  bool may_cut(std::size_t before) const { return may_cut_[before] != 0; }

  // By place of the cut: bytes of activations that cross it.
  std::vector<double> crossing(std::int64_t samples) const {
    std::vector<double> bytes(size() + 1, 0);
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      if (tensor.role != TensorRole::kActivation || tensor.producer == kNone) continue;
      const std::size_t from = place_[graph_.ops[tensor.producer].group];
      std::size_t to = from;
      for (OpId user : graph_.consumers[t]) {
        if (graph_.ops[user].kind == OpKind::kForward) to = std::max(to, place_[graph_.ops[user].group]);
      }
      for (std::size_t i = from + 1; i <= to; ++i) bytes[i] += static_cast<double>(tensor.bytes(samples).value);
    }
    return bytes;
  }

 private:
  const Graph& graph_;
  std::vector<GroupId> order_;
  std::vector<std::size_t> place_;  // by group
  std::vector<char> may_cut_;
};

// Devices that cost the same and have as much memory.
struct Kind {
  std::vector<DeviceIndex> devices;  // ascending
  double memory = 0;                 // bytes beside the context
  std::size_t unit = 1;              // stages take so many at a time
  std::size_t units() const { return devices.size() / unit; }
};

// How many ways there are to take some units of each kind.
std::size_t count_ways(const std::vector<Kind>& kinds) {
  std::size_t ways = 1;
  for (const Kind& kind : kinds) ways = std::min(ways * (kind.units() + 1), 2 * kMostCounts);
  return ways;
}

std::vector<Kind> kinds_of(const Evaluator& evaluator) {
  std::map<std::tuple<std::int32_t, std::int64_t>, std::size_t> known;
  std::vector<Kind> kinds;
  for (DeviceIndex d = 0; d < static_cast<DeviceIndex>(evaluator.cluster().devices.size()); ++d) {
    const Bytes memory = evaluator.cluster().devices[d].usable() - evaluator.costs().context(d);
    const auto [kind, fresh] = known.try_emplace({evaluator.costs().cost_class(d), memory.value}, kinds.size());
    if (fresh) kinds.push_back({{}, static_cast<double>(memory.value)});
    kinds[kind->second].devices.push_back(d);
  }
  const auto can_grow = [](const Kind& kind) { return kind.unit < kind.devices.size(); };
  while (count_ways(kinds) > kMostCounts && std::ranges::any_of(kinds, can_grow)) {
    for (Kind& kind : kinds) kind.unit = std::min(2 * kind.unit, kind.devices.size());
  }
  return kinds;
}

struct Stage {
  std::size_t begin = 0, end = 0;  // places in the chain
  std::size_t kind = 0, width = 0;
  Recompute recompute = Recompute::kNone;
};

struct Candidate {
  std::vector<Stage> stages;  // from the first to the last
  std::int64_t micro_batches = 0;
  double seconds = 0;  // estimated
};

// For one number of micro-batches.
class StageSearch {
 public:
  StageSearch(const Evaluator& evaluator, const Chain& chain, const std::vector<Kind>& kinds,
              std::int64_t micro_batches)
      : evaluator_(evaluator),
        chain_(chain),
        kinds_(kinds),
        micro_batches_(micro_batches),
        samples_(std::max<std::int64_t>(1, evaluator.batch() / micro_batches)) {
    add_work(group_work(evaluator.graph(), evaluator.cluster(), evaluator.costs(), samples_));
    choose_cuts(chain.crossing(samples_));
    for (std::size_t from = 0; from < kinds.size(); ++from) {
      second_per_byte_.emplace_back();
      for (std::size_t to = 0; to < kinds.size(); ++to) second_per_byte_[from].push_back(second_per_byte(from, to));
    }
    for (const Kind& kind : kinds) radix_.push_back(kind.units() + 1);
    counts_ = std::accumulate(radix_.begin(), radix_.end(), std::size_t{1}, std::multiplies<>());
  }

  // The best for each number of stages from two on that fill so much of their devices' memory at most.
  std::vector<Candidate> run(double filled) {
    filled_ = filled;
    const std::size_t places = cuts_.size();  // cuts_[0] is the model's begin, the last one its end
    const auto most = static_cast<std::int32_t>(
        std::min<std::size_t>({kMostStages, places - 1, evaluator_.cluster().devices.size()}));
    std::vector<std::vector<State>> states(most + 1, std::vector<State>(counts_ * places));
    states[0][places - 1] = {.longest = 0, .sum = 0};
    for (std::int32_t k = 0; k < most; ++k) {
      for (std::size_t c = 0; c < counts_; ++c) {
        for (std::size_t end = 1; end < places; ++end) {
          if (states[k][c * places + end].reached()) extend(states, k, c, end);
        }
      }
    }
    std::vector<Candidate> candidates;
    for (std::int32_t k = 2; k <= most; ++k) {
      const State* best = nullptr;
      std::size_t at = 0;
      for (std::size_t c = 0; c < counts_; ++c) {
        const State& state = states[k][c * places];
        if (!state.reached() || (best != nullptr && seconds(*best) <= seconds(state))) continue;
        best = &state;
        at = c;
      }
      if (best != nullptr) candidates.push_back(trace(states, k, at));
    }
    return candidates;
  }

 private:
  // Stages behind a place: how long the slowest takes for a micro-batch, and all together.
  struct State {
    double longest = std::numeric_limits<double>::infinity();
    double sum = std::numeric_limits<double>::infinity();
    std::int32_t kind = kNone;  // of the first of them, with its units and end
    std::int32_t units = 0;
    std::int32_t end = 0;
    Recompute recompute = Recompute::kNone;
    bool reached() const { return longest < std::numeric_limits<double>::infinity(); }
  };
  double seconds(const State& state) const {
    return static_cast<double>(micro_batches_ - 1) * state.longest + state.sum;
  }

  void add_work(const std::vector<GroupWork>& work) {
    seconds_.assign(kinds_.size(), std::vector<double>(chain_.size() + 1, 0));
    forward_ = seconds_;
    state_.assign(chain_.size() + 1, 0);
    parameters_ = kept_ = handed_ = state_;
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      const GroupWork& group = work[chain_.group(i)];
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        const DeviceIndex device = kinds_[kind].devices.front();
        seconds_[kind][i + 1] = seconds_[kind][i] + group.seconds[device];
        forward_[kind][i + 1] = forward_[kind][i] + group.forward_seconds[device];
      }
      state_[i + 1] = state_[i] + static_cast<double>(group.state_bytes);
      parameters_[i + 1] = parameters_[i] + static_cast<double>(group.parameter_bytes);
      kept_[i + 1] = kept_[i] + static_cast<double>(group.kept_bytes);
      handed_[i + 1] = handed_[i] + static_cast<double>(group.handed_bytes);
    }
  }

  // All places, or of kCuts parts of equal work the place in each that least crosses.
  void choose_cuts(std::vector<double> crossing) {
    crossing_ = std::move(crossing);
    cuts_ = {0};
    const double part = seconds_[0].back() / static_cast<double>(kCuts);
    double window = -1;
    for (std::size_t i = 1; i < chain_.size(); ++i) {
      if (!chain_.may_cut(i)) continue;
      const double in = part > 0 ? std::floor(seconds_[0][i] / part) : 0;
      const bool all = chain_.size() <= kCuts;
      if (all || in != window) {
        cuts_.push_back(i);
      } else if (crossing_[i] < crossing_[cuts_.back()]) {
        cuts_.back() = i;
      }
      window = in;
    }
    cuts_.push_back(chain_.size());
  }

  std::size_t used(std::size_t counts, std::size_t kind) const {
    for (std::size_t i = 0; i < kind; ++i) counts /= radix_[i];
    return counts % radix_[kind];
  }
  std::size_t with(std::size_t counts, std::size_t kind, std::size_t units) const {
    std::size_t weight = 1;
    for (std::size_t i = 0; i < kind; ++i) weight *= radix_[i];
    return counts + weight * units;
  }

  // One more stage before those of a state, on powers of two of a kind's units, or on all that are left.
  void extend(std::vector<std::vector<State>>& states, std::int32_t k, std::size_t counts, std::size_t end) const {
    const State state = states[k][counts * cuts_.size() + end];
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const std::size_t left = kinds_[kind].units() - used(counts, kind);
      for (std::size_t units = 1; units <= left; units *= 2) {
        relax(states, k, counts, end, state, kind, units);
        if (units < left && 2 * units > left) relax(states, k, counts, end, state, kind, left);
      }
    }
  }

  void relax(std::vector<std::vector<State>>& states, std::int32_t k, std::size_t counts, std::size_t end,
             const State& state, std::size_t kind, std::size_t units) const {
    const std::size_t places = cuts_.size();
    const std::size_t width = units * kinds_[kind].unit;
    if (static_cast<std::int64_t>(width) > samples_) return;
    const auto wide = static_cast<double>(width);
    const auto held = static_cast<double>(std::min<std::int64_t>(k + 1, micro_batches_));
    const double away = state.kind == kNone ? 0 : crossing_[cuts_[end]] / wide * second_per_byte_[kind][state.kind];
    for (std::size_t begin = end; begin-- > 0;) {
      const auto between = [&](const std::vector<double>& sums) { return sums[cuts_[end]] - sums[cuts_[begin]]; };
      // What does not fit is made again: each group keeps what it hands on, and one at a time all the rest.
      Recompute recompute = Recompute::kNone;
      double seconds = between(seconds_[kind]);
      const double memory = filled_ * kinds_[kind].memory;
      if (between(state_) + between(kept_) / wide * held > memory) {
        recompute = Recompute::kFull;
        seconds += between(forward_[kind]);
        if (between(state_) + between(handed_) / wide * held > memory) return;  // longer ones need more
      }
      const double reduce = 2 * (wide - 1) / wide * between(parameters_) * second_per_byte_[kind][kind];
      const double work = seconds / wide;
      const double longest = std::max({state.longest, work + reduce / static_cast<double>(micro_batches_), away});
      const double sum = state.sum + work + 2 * away;
      State& next = states[k + 1][with(counts, kind, units) * places + begin];
      if (std::tie(longest, sum) < std::tie(next.longest, next.sum)) {
        next = {longest,
                sum,
                static_cast<std::int32_t>(kind),
                static_cast<std::int32_t>(units),
                static_cast<std::int32_t>(end),
                recompute};
      }
    }
  }

  double second_per_byte(std::size_t from, std::size_t to) const {
    const DeviceIndex first = kinds_[from].devices.front();
    const DeviceIndex second = from == to ? kinds_[to].devices.back() : kinds_[to].devices.front();
    return first == second ? 0 : 1 / evaluator_.cluster().bandwidth(first, second).value;
  }

  Candidate trace(const std::vector<std::vector<State>>& states, std::int32_t k, std::size_t counts) const {
    const std::size_t places = cuts_.size();
    Candidate candidate{{}, micro_batches_, seconds(states[k][counts * places])};
    for (std::size_t begin = 0; k > 0; --k) {
      const State& state = states[k][counts * places + begin];
      const auto kind = static_cast<std::size_t>(state.kind), units = static_cast<std::size_t>(state.units);
      const auto end = static_cast<std::size_t>(state.end);
      candidate.stages.push_back({cuts_[begin], cuts_[end], kind, units * kinds_[kind].unit, state.recompute});
      counts -= with(0, kind, units);
      begin = end;
    }
    return candidate;
  }

  const Evaluator& evaluator_;
  const Chain& chain_;
  const std::vector<Kind>& kinds_;
  std::int64_t micro_batches_, samples_;  // samples of a micro-batch
  double filled_ = 1;
  std::vector<std::vector<double>> seconds_;  // by kind, of the groups before a place; of one micro-batch, as the next
  std::vector<std::vector<double>> forward_;  // likewise
  std::vector<double> state_, parameters_, kept_, handed_;  // bytes, likewise
  std::vector<double> crossing_;
  std::vector<std::vector<double>> second_per_byte_;  // from a kind, to a kind
  std::vector<std::size_t> cuts_;
  std::vector<std::size_t> radix_;
  std::size_t counts_ = 1;  // ways to take some units of each kind
};

Strategy strategy_of(const Candidate& candidate, const Evaluator& evaluator, const Chain& chain,
                     const std::vector<Kind>& kinds) {
  Strategy strategy = uniform_strategy("search", evaluator.graph(), {});
  strategy.micro_batches = candidate.micro_batches;
  std::vector<std::size_t> taken(kinds.size(), 0);
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const Stage& stage = candidate.stages[s];
    GroupDecision decision;
    decision.stage = static_cast<std::int32_t>(s);
    decision.recompute = stage.recompute;
    for (std::size_t i = 0; i < stage.width; ++i) {
      decision.shares.push_back({kinds[stage.kind].devices[taken[stage.kind]++], 1.0});
    }
    for (std::size_t place = stage.begin; place < stage.end; ++place) strategy.groups[chain.group(place)] = decision;
  }
  return strategy;
}

}  // namespace

Strategy even_pipeline(const std::string& schedule, const Graph& graph, const Cluster& cluster, const CostModel& costs,
                       std::int64_t batch) {
  constexpr std::size_t kStages = 8;
  const Chain chain(graph);
  const std::vector<GroupWork> work = group_work(graph, cluster, costs, batch);
  const std::size_t chunks = schedule == "interleaved-1f1b" || schedule == "zb-v" ? 2 : 1;
  const std::size_t devices = cluster.devices.size();
  std::size_t ranks = std::min({kStages, devices, std::max<std::size_t>(1, graph.groups.size() / chunks)});
  while (devices % ranks != 0) --ranks;  // as many devices to each
  const std::size_t width = devices / ranks, stages = ranks * chunks;
  double total = 0;
  for (const GroupWork& group : work) total += group.seconds[0];
  Strategy strategy = uniform_strategy("pp:" + schedule, graph, {});
  strategy.schedule = schedule;
  strategy.micro_batches =
      std::clamp<std::int64_t>(batch / static_cast<std::int64_t>(width), 1, static_cast<std::int64_t>(4 * ranks));
  double done = 0;
  std::size_t stage = 0, in_stage = 0;
  for (std::size_t place = 0; place < chain.size(); ++place) {
    const double seconds = work[chain.group(place)].seconds[0];
    // The next stage begins nearest to its part of the work, and in time for every later one to have a group.
    const double boundary = total * static_cast<double>(stage + 1) / static_cast<double>(stages);
    const bool must = chain.size() - place <= stages - stage - 1;
    if (stage + 1 < stages && in_stage > 0 && chain.may_cut(place) && (must || done + seconds / 2 > boundary)) {
      ++stage;
      in_stage = 0;
    }
    done += seconds;
    ++in_stage;
    strategy.groups[chain.group(place)].stage = static_cast<std::int32_t>(stage);
  }
  for (GroupDecision& decision : strategy.groups) {
    const auto of = static_cast<std::size_t>(decision.stage);
    const std::size_t rank = schedule == "zb-v" ? std::min(of, stages - 1 - of) : of % ranks;
    for (std::size_t i = 0; i < width; ++i) {
      decision.shares.push_back({static_cast<DeviceIndex>(rank * width + i), 1.0});
    }
  }
  return strategy;
}

std::vector<Strategy> pipeline_starts(const Evaluator& evaluator) {
  const std::size_t devices = evaluator.cluster().devices.size();
  if (devices < 2 || devices > kMostDevices) return {};
  const Chain chain(evaluator.graph());
  const std::vector<Kind> kinds = kinds_of(evaluator);
  std::vector<StageSearch> searches;
  for (std::int64_t m = 2; m <= std::min(kMostMicroBatches, evaluator.batch()); m *= 2) {
    searches.emplace_back(evaluator, chain, kinds, m);
  }
  std::vector<Strategy> starts;
  for (const double filled : kFilled) {
    std::vector<Candidate> candidates;
    for (StageSearch& search : searches) {
      std::vector<Candidate> found = search.run(filled);
      std::move(found.begin(), found.end(), std::back_inserter(candidates));
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::seconds);
    if (candidates.size() > kStarts) candidates.resize(kStarts);
    // The best ones of each come first, for a search that has little time.
    std::vector<Strategy> mixed;
    for (std::size_t i = 0; i < std::max(candidates.size(), starts.size()); ++i) {
      if (i < starts.size()) mixed.push_back(starts[i]);
      if (i < candidates.size()) mixed.push_back(strategy_of(candidates[i], evaluator, chain, kinds));
    }
    starts = std::move(mixed);
  }
  return starts;
}

}  // namespace motley
