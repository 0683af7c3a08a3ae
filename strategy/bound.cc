#include "strategy/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace motley {

namespace {

struct Least {
  double cost = std::numeric_limits<double>::infinity();
  double rate = std::numeric_limits<double>::infinity();  // per sample
};

// The least cost and rate of one op on one device over the batches 1..most.
class LeastCost {
 public:
  LeastCost(const CostModel& costs, OpId op, DeviceIndex device) : costs_(costs), op_(op), device_(device) {}

  Least over(std::int64_t most) {
    const double first = visit(1), last = visit(most);
    halve(1, first, most, last, 0);
    return least_;
  }

 private:
  double visit(std::int64_t batch) {
    const double cost = costs_.op(op_, device_, batch).time.value;
    least_.cost = std::min(least_.cost, cost);
    least_.rate = std::min(least_.rate, cost / static_cast<double>(batch));
    return cost;
  }

  // On a straight piece both are least at an end. A piece that looks straight is halved twice more to make sure.
  void halve(std::int64_t low, double low_cost, std::int64_t high, double high_cost, int straight) {
    constexpr int kSure = 2;
    if (high - low < 2 || straight > kSure) return;
    const std::int64_t middle = low + (high - low) / 2;
    const double cost = visit(middle);
    const double chord =
        low_cost + (high_cost - low_cost) * static_cast<double>(middle - low) / static_cast<double>(high - low);
    const bool on_chord = std::abs(cost - chord) <= 1e-9 * std::abs(chord);
    halve(low, low_cost, middle, cost, on_chord ? straight + 1 : 0);
    halve(middle, cost, high, high_cost, on_chord ? straight + 1 : 0);
  }

  const CostModel& costs_;
  OpId op_;
  DeviceIndex device_;
  Least least_;
};

bool meets_batch(const Graph& graph, const Op& op) {
  const auto split = [&](TensorId tensor) {
    return tensor != kNone && graph.tensors[tensor].layout.kind == BatchLayout::Kind::kSplit;
  };
  return std::any_of(op.inputs.begin(), op.inputs.end(), split) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), split);
}

// sum over ops of min_d weights_d * work(op, d); fills `load` with each device's part, unweighted.
double weighted_work(const std::vector<double>& work, const std::vector<double>& weights, std::vector<double>& load) {
  const std::size_t devices = weights.size();
  std::fill(load.begin(), load.end(), 0);
  double sum = 0;
  for (std::size_t first = 0; first < work.size(); first += devices) {
    std::size_t best = 0;
    for (std::size_t d = 1; d < devices; ++d) {
      if (weights[d] * work[first + d] < weights[best] * work[first + best]) best = d;
    }
    sum += weights[best] * work[first + best];
    load[best] += work[first + best];
  }
  return sum;
}

double best_weighted_work(const std::vector<double>& work, std::size_t devices) {
  std::vector<double> weights(devices, 0), load(devices, 0);
  for (std::size_t i = 0; i < work.size(); ++i) weights[i % devices] += work[i];
  for (double& weight : weights) weight = 1 / std::max(weight, 1e-300);
  double best = 0;
  constexpr int kSteps = 300;
  for (int step = 0; step < kSteps; ++step) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
    const double bound = weighted_work(work, weights, load);
    best = std::max(best, bound);
    const double most = *std::max_element(load.begin(), load.end());
    if (most <= 0) break;
    // A device that the minimum loads more than others should weigh more.
    for (std::size_t d = 0; d < devices; ++d) {
      weights[d] *= std::exp((load[d] - bound) / most * 0.5 / (1.0 + step));
    }
  }
  return best;
}

std::optional<std::string> state_exceeds_memory(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                                std::int64_t batch) {
  Bytes state, memory, headroom;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kOptimizerState ||
        tensor.role == TensorRole::kBuffer) {
      if (tensor.alias_of == kNone) state += tensor.bytes(batch);
    }
  }
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    const Device& device = cluster.devices[d];
    memory += std::max(Bytes(0), device.usable() - costs.context(static_cast<DeviceIndex>(d)));
    headroom += device.memory - device.usable();
  }
  if (state <= memory) return std::nullopt;
  return "parameters, optimizer states and buffers need " + to_string(state) + ", all devices together have " +
         to_string(memory) + " beside what each process takes for itself" +
         (headroom > Bytes(0) ? " and " + to_string(headroom) + " of headroom" : "") +
         ": add devices, or choose an optimizer with fewer states";
}

}  // namespace

LowerBound lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch) {
  const std::size_t devices = cluster.devices.size();
  std::vector<double> work;                           // op-major, then device
  std::vector<double> path(graph.tensors.size(), 0);  // when a tensor can be there at the earliest
  LowerBound bound;
  for (std::size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    double ready = 0, least_anywhere = 0;
    for (TensorId input : op.inputs) {
      if (input != kNone) ready = std::max(ready, path[input]);
    }
    // The compiler sums gradients in its own way, for free at best.
    if (op.kind != OpKind::kGradientSum) {
      const bool shared = op.kind != OpKind::kUpdate && meets_batch(graph, op);
      least_anywhere = std::numeric_limits<double>::infinity();
      for (std::size_t d = 0; d < devices; ++d) {
        const Least least = LeastCost(costs, static_cast<OpId>(o), static_cast<DeviceIndex>(d))
                                .over(op.kind == OpKind::kUpdate ? 1 : batch);
        work.push_back(shared ? least.rate * static_cast<double>(batch) : least.cost);
        least_anywhere = std::min(least_anywhere, least.cost);
      }
    }
    for (TensorId output : op.outputs) {
      if (output != kNone) path[output] = ready + least_anywhere;
    }
    bound.critical_path = std::max(bound.critical_path, Seconds(ready + least_anywhere));
  }
  bound.work = Seconds(best_weighted_work(work, devices));
  bound.never_fits = state_exceeds_memory(graph, cluster, costs, batch);
  return bound;
}

}  // namespace motley
