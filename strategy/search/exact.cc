#include "strategy/search/exact.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "strategy/baselines.h"
#include "strategy/bound/least_costs.h"
#include "strategy/bound/traffic.h"
#include "strategy/search/moves.h"
#include "strategy/work.h"

namespace motley {

namespace {

struct Range {
  std::int64_t begin = 0, end = 0;
};

// One way to decide on a group.
struct Choice {
  GroupDecision decision;
  std::vector<Range> samples;   // by device
  std::vector<double> seconds;  // by op, of any group: the least of its replicas; empty ranges compute nothing
};

class Exact {
 public:
  Exact(const Evaluator& evaluator, const ExactOptions& options)
      : evaluator_(evaluator),
        options_(options),
        graph_(evaluator.graph()),
        devices_(evaluator.cluster().devices.size()),
        batch_(evaluator.batch()),
        order_(model_order(graph_)),
        exchanges_(exchanges(graph_, batch_)),
        decided_(graph_.groups.size(), nullptr) {
    const std::vector<GroupWork> work = group_work(graph_, evaluator.cluster(), evaluator.costs(), batch_);
    seconds_ = iteration_seconds(work, evaluator.cluster());
    for (std::size_t d = 0; d < devices_; ++d) {
      const auto device = static_cast<DeviceIndex>(d);
      rates_.push_back(devices_ > 1 ? cut_rate(evaluator.cluster(), {&device, 1}).value : 1);
    }
    find_least();
    find_choices();
  }

  ExactResult run() {
    result_.proved = true;
    for (const char* name : {"ev-ar", "cp-ar"}) judge(evaluator_.evaluate_baseline(name).strategy);
    for (std::size_t d = 0; d < devices_; ++d) {
      judge(uniform_strategy("exact", graph_, {{{static_cast<DeviceIndex>(d), static_cast<double>(batch_)}}}));
    }
    std::vector<std::int32_t> blocks = symmetric_devices();
    descend(0, blocks);
    result_.best.strategy.name = "exact";
    result_.elapsed = elapsed();
    return std::move(result_);
  }

 private:
  Seconds elapsed() const {
    return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count());
  }
  double cost(std::size_t op, std::size_t device, std::int64_t batch) const {
    const auto d = static_cast<DeviceIndex>(device);
    return (evaluator_.costs().op(static_cast<OpId>(op), d, batch).time + evaluator_.costs().dispatch(d)).value;
  }

  // Of ops of groups that are not decided on.
  void find_least() {
    std::vector<DeviceIndex> all(devices_);
    std::iota(all.begin(), all.end(), 0);
    weights_.assign(devices_, 0);
    double sum = 0;
    for (std::size_t d = 0; d < devices_; ++d) {
      weights_[d] = 1 / std::max(seconds_[d], 1e-30);
      sum += weights_[d];
    }
    for (double& weight : weights_) weight /= sum;
    least_.assign(graph_.ops.size(), 0);
    least_work_.assign(graph_.groups.size(), 0);
    std::vector<std::vector<double>> work(graph_.groups.size(), std::vector<double>(devices_, 0));
    for (std::size_t o = 0; o < graph_.ops.size(); ++o) {
      const Op& op = graph_.ops[o];
      if (op.kind == OpKind::kGradientSum || op.group == kNone) continue;
      const bool update = op.kind == OpKind::kUpdate;
      const std::vector<LeastCost> found =
          least_costs(evaluator_.costs(), static_cast<OpId>(o), all, update ? 1 : batch_);
      least_[o] = std::numeric_limits<double>::infinity();
      for (std::size_t d = 0; d < devices_; ++d) {
        least_[o] = std::min(least_[o], found[d].once.value);
        if (!update && meets_batch(graph_, op)) {
          work[at(op.group)][d] += weights_[d] * found[d].sample.value * static_cast<double>(batch_);
        }
      }
    }
    for (std::size_t g = 0; g < work.size(); ++g) least_work_[g] = *std::ranges::min_element(work[g]);
  }

  void find_choices() {
    std::vector<std::vector<std::pair<DeviceIndex, std::int64_t>>> known;
    for (std::uint32_t bits = 1; bits < (1U << devices_); ++bits) {
      for (const bool by_speed : {false, true}) {
        GroupDecision decision;
        for (std::size_t d = 0; d < devices_; ++d) {
          if ((bits >> d & 1U) == 0) continue;
          decision.shares.push_back({static_cast<DeviceIndex>(d), by_speed ? 1 / std::max(seconds_[d], 1e-30) : 1});
        }
        const std::vector<std::int64_t> split = split_batch(decision.shares, batch_);
        if (split.empty()) continue;
        std::vector<std::pair<DeviceIndex, std::int64_t>> samples;
        for (std::size_t i = 0; i < split.size(); ++i) {
          decision.shares[i].weight = static_cast<double>(split[i]);
          samples.emplace_back(decision.shares[i].device, split[i]);
        }
        if (std::ranges::find(known, samples) != known.end()) continue;
        known.push_back(samples);
        for (const GradientMethod method : {GradientMethod::kAllReduce, GradientMethod::kParameterServer}) {
          if (split.size() == 1 && method == GradientMethod::kParameterServer) continue;
          decision.gradient = method;
          add_choice(decision, split);
        }
      }
    }
  }

  void add_choice(const GroupDecision& decision, const std::vector<std::int64_t>& split) {
    Choice choice{decision, std::vector<Range>(devices_), std::vector<double>(graph_.ops.size(), 0)};
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < split.size(); ++i) {
      choice.samples[at(decision.shares[i].device)] = {begin, begin + split[i]};
      begin += split[i];
    }
    for (std::size_t o = 0; o < graph_.ops.size(); ++o) {
      if (graph_.ops[o].kind == OpKind::kGradientSum || graph_.ops[o].group == kNone) continue;
      choice.seconds[o] = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < split.size(); ++i) {
        const bool update = graph_.ops[o].kind == OpKind::kUpdate;
        choice.seconds[o] = std::min(choice.seconds[o], cost(o, at(decision.shares[i].device), update ? 1 : split[i]));
      }
    }
    choices_.push_back(std::move(choice));
  }

  // The same number for devices that can change places: nothing on the way to any other device tells them apart.
  std::vector<std::int32_t> symmetric_devices() const {
    const Cluster& cluster = evaluator_.cluster();
    const auto alone = [&](const Device& device) { return cluster.nodes[at(device.node)].devices.size() == 1; };
    const auto alike = [&](DeviceIndex a, DeviceIndex b) {
      const Device &one = cluster.devices[at(a)], &other = cluster.devices[at(b)];
      if (evaluator_.costs().cost_class(a) != evaluator_.costs().cost_class(b)) return false;
      if (one.memory != other.memory || one.usable() != other.usable()) return false;
      if (one.node != other.node && !(alone(one) && alone(other))) return false;
      for (DeviceIndex c = 0; c < static_cast<DeviceIndex>(devices_); ++c) {
        if (c == a || c == b) continue;
        if (cluster.latency(a, c) != cluster.latency(b, c)) return false;
        if (cluster.bandwidth(a, c) != cluster.bandwidth(b, c)) return false;
        if (cluster.route(a, c).size() != cluster.route(b, c).size()) return false;
      }
      for (GroupId g = 0; options_.pins != nullptr && g < static_cast<GroupId>(graph_.groups.size()); ++g) {
        if (options_.pins->may(g, a) != options_.pins->may(g, b)) return false;
      }
      return rates_[at(a)] == rates_[at(b)];
    };
    std::vector<std::int32_t> blocks;
    for (DeviceIndex d = 0; d < static_cast<DeviceIndex>(devices_); ++d) {
      std::int32_t block = d;
      for (DeviceIndex earlier = 0; earlier < d && block == d; ++earlier) {
        if (alike(earlier, d)) block = blocks[at(earlier)];
      }
      blocks.push_back(block);
    }
    return blocks;
  }

  // Whether of devices that nothing tells apart the first ones are taken.
  bool in_order(const Choice& choice, const std::vector<std::int32_t>& blocks) const {
    for (std::size_t d = 0; d < devices_; ++d) {
      for (std::size_t earlier = 0; earlier < d; ++earlier) {
        const bool gap = choice.samples[earlier].end == 0 && choice.samples[d].end > 0;
        if (gap && blocks[earlier] == blocks[d]) return false;
      }
    }
    return true;
  }

  bool may(GroupId group, const Choice& choice) const {
    const auto allowed = [&](const Share& share) { return options_.pins->may(group, share.device); };
    return options_.pins == nullptr || std::ranges::all_of(choice.decision.shares, allowed);
  }

  std::vector<std::int32_t> told_apart(const Choice& choice, const std::vector<std::int32_t>& blocks) const {
    std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> numbers;
    std::vector<std::int32_t> result;
    for (std::size_t d = 0; d < devices_; ++d) {
      const std::int64_t samples = choice.samples[d].end - choice.samples[d].begin;
      result.push_back(
          numbers.try_emplace({blocks[d], samples}, static_cast<std::int32_t>(numbers.size())).first->second);
    }
    return result;
  }

  void judge(Strategy strategy) {
    if (options_.pins != nullptr && !options_.pins->obeyed_by(strategy)) return;
    strategy.name = "exact";
    Evaluation evaluation = evaluator_.evaluate(in_samples(strategy, batch_));
    ++result_.evaluations;
    if (result_.evaluations == 1 || better(evaluation, result_.best)) result_.best = std::move(evaluation);
  }

  void descend(std::size_t depth, const std::vector<std::int32_t>& blocks) {
    if (elapsed() >= options_.time || options_.stop.stop_requested()) {
      result_.proved = false;
      return;
    }
    if (depth == order_.size()) {
      Strategy strategy = uniform_strategy("exact", graph_, {});
      for (std::size_t g = 0; g < decided_.size(); ++g) strategy.groups[g] = decided_[g]->decision;
      judge(std::move(strategy));
      return;
    }
    const std::size_t group = at(order_[depth]);
    std::vector<std::pair<double, const Choice*>> open;
    for (const Choice& choice : choices_) {
      if (!in_order(choice, blocks) || !may(order_[depth], choice)) continue;
      decided_[group] = &choice;
      open.emplace_back(at_least(), &choice);
    }
    std::ranges::stable_sort(open, {}, [](const auto& branch) { return branch.first; });
    for (const auto& [seconds, choice] : open) {
      if (result_.evaluations > 0 && result_.best.feasible() && seconds >= result_.best.simulation.iteration.value)
        break;
      decided_[group] = choice;
      descend(depth + 1, told_apart(*choice, blocks));
    }
    decided_[group] = nullptr;
  }

  // What any strategy takes that decides so.
  double at_least() const { return std::max({loads(), traffic(), path()}); }

  double loads() const {
    std::vector<double> busy(devices_, 0);
    for (std::size_t o = 0; o < graph_.ops.size(); ++o) {
      const Op& op = graph_.ops[o];
      const Choice* choice = op.group == kNone ? nullptr : decided_[at(op.group)];
      if (choice == nullptr || op.kind == OpKind::kGradientSum) continue;
      const bool once_somewhere =  // updates by a server; what rests on no sample may have its gradient elsewhere
          op.kind == OpKind::kUpdate || (op.is_backward() && !meets_batch(graph_, op));
      if (once_somewhere && choice->decision.shares.size() > 1) continue;
      for (std::size_t d = 0; d < devices_; ++d) {
        const Range& range = choice->samples[d];
        if (range.end > 0) busy[d] += cached_cost(o, d, op.kind == OpKind::kUpdate ? 1 : range.end - range.begin);
      }
    }
    double together = 0;
    for (std::size_t d = 0; d < devices_; ++d) together += weights_[d] * busy[d];
    for (std::size_t g = 0; g < decided_.size(); ++g) together += decided_[g] == nullptr ? least_work_[g] : 0;
    return std::max(together, *std::ranges::max_element(busy));
  }

  double cached_cost(std::size_t op, std::size_t device, std::int64_t batch) const {
    const auto [known, fresh] = costs_.try_emplace({op, device, batch}, 0);
    if (fresh) known->second = cost(op, device, batch);
    return known->second;
  }

  double traffic() const {
    std::vector<double> in(devices_, 0), out(devices_, 0);
    const auto fetched = [&](const Exchange& exchange, const std::vector<GroupId>& others, double bytes, bool forward) {
      // Of the samples that a group has on a device and that another one makes elsewhere.
      for (std::size_t d = 0; d < devices_; ++d) {
        double enters = 0, leaves = 0;
        for (const GroupId other : others) {
          if (decided_[at(other)] == nullptr) continue;
          const Range& made = decided_[at(exchange.maker)]->samples[d];
          const Range& taken = decided_[at(other)]->samples[d];
          const auto both =
              std::max<std::int64_t>(0, std::min(made.end, taken.end) - std::max(made.begin, taken.begin));
          const double only_taken = static_cast<double>(taken.end - taken.begin - both) / static_cast<double>(batch_);
          const double only_made = static_cast<double>(made.end - made.begin - both) / static_cast<double>(batch_);
          enters = std::max(enters, bytes * (forward ? only_taken : only_made));
          leaves = std::max(leaves, bytes * (forward ? only_made : only_taken));
        }
        in[d] += enters;
        out[d] += leaves;
      }
    };
    for (const Exchange& exchange : exchanges_) {
      if (decided_[at(exchange.maker)] == nullptr) continue;
      fetched(exchange, exchange.takers, exchange.bytes, true);
      fetched(exchange, exchange.returners, exchange.gradient_bytes, false);
    }
    for (const Op& op : graph_.ops) {
      const Choice* choice = op.kind == OpKind::kUpdate ? decided_[at(op.group)] : nullptr;
      if (choice == nullptr || choice->decision.shares.size() < 2) continue;
      const auto bytes = static_cast<double>(graph_.tensors[at(op.inputs[1])].bytes(batch_).value);
      for (const Share& share : choice->decision.shares) {
        in[at(share.device)] += bytes;
        out[at(share.device)] += bytes;
      }
    }
    double seconds = 0;
    for (std::size_t d = 0; d < devices_; ++d) seconds = std::max({seconds, in[d] / rates_[d], out[d] / rates_[d]});
    return seconds;
  }

  double path() const {
    std::vector<double>& ends = ends_;
    ends.assign(graph_.ops.size(), 0);
    double longest = 0;
    for (std::size_t o = 0; o < graph_.ops.size(); ++o) {
      const Op& op = graph_.ops[o];
      const Choice* choice = op.group == kNone ? nullptr : decided_[at(op.group)];
      double start = op.is_backward() && op.forward != kNone ? ends[at(op.forward)] : 0;
      for (const TensorId input : op.inputs) {
        const OpId maker = input == kNone ? kNone : graph_.tensors[at(input)].producer;
        if (maker != kNone) start = std::max(start, ends[at(maker)] + way(graph_.ops[at(maker)], op, input));
      }
      if (op.kind == OpKind::kUpdate && choice != nullptr && choice->decision.shares.size() > 1) {
        double slowest = std::numeric_limits<double>::infinity();
        for (const Share& share : choice->decision.shares) slowest = std::min(slowest, rates_[at(share.device)]);
        start += static_cast<double>(graph_.tensors[at(op.inputs[1])].bytes(batch_).value) / slowest;
      }
      ends[o] = start + (choice == nullptr ? least_[o] : choice->seconds[o]);
      longest = std::max(longest, ends[o]);
    }
    return longest;
  }

  // Of a tensor between two groups that have one device each, and not the same.
  double way(const Op& from, const Op& to, TensorId tensor) const {
    if (from.group == kNone || to.group == kNone || from.group == to.group) return 0;
    if (from.kind == OpKind::kGradientSum || to.kind == OpKind::kGradientSum || to.kind == OpKind::kUpdate) return 0;
    if (graph_.tensors[at(tensor)].layout.kind != BatchLayout::Kind::kSplit) return 0;
    const Choice *one = decided_[at(from.group)], *other = decided_[at(to.group)];
    if (one == nullptr || other == nullptr) return 0;
    if (one->decision.shares.size() > 1 || other->decision.shares.size() > 1) return 0;
    const DeviceIndex a = one->decision.shares[0].device, b = other->decision.shares[0].device;
    if (a == b) return 0;
    const double bytes = static_cast<double>(graph_.tensors[at(tensor)].bytes(batch_).value);
    return evaluator_.cluster().latency(a, b).value + bytes / evaluator_.cluster().bandwidth(a, b).value;
  }

  const Evaluator& evaluator_;
  const ExactOptions& options_;
  const Graph& graph_;
  const std::size_t devices_;
  const std::int64_t batch_;
  const std::vector<GroupId> order_;
  const std::vector<Exchange> exchanges_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<double> seconds_;     // by device: one iteration there
  std::vector<double> rates_;       // by device: bytes per second in or out
  std::vector<double> weights_;     // by device: its part of all speed
  std::vector<double> least_;       // by op: seconds of a run
  std::vector<double> least_work_;  // by group: seconds of the batch, weighted
  std::vector<Choice> choices_;
  std::vector<const Choice*> decided_;  // by group
  mutable std::vector<double> ends_;    // of path()
  mutable std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, double> costs_;
  ExactResult result_;
};

}  // namespace

void check_exact(const Graph& graph, const Cluster& cluster) {
  const std::size_t groups = graph.groups.size(), devices = cluster.devices.size();
  if (groups <= kExactGroups && devices <= kExactDevices) return;
  throw Error(ErrorKind::kInvalidInput, "the exact optimum is for at most " + std::to_string(kExactGroups) +
                                            " op groups and " + std::to_string(kExactDevices) +
                                            " devices, and here are " + std::to_string(groups) + " and " +
                                            std::to_string(devices) + ": give --max-groups, or a smaller cluster");
}

ExactResult exact_optimum(const Evaluator& evaluator, const ExactOptions& options) {
  check_exact(evaluator.graph(), evaluator.cluster());
  return Exact(evaluator, options).run();
}

}  // namespace motley
