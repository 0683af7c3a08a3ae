#include "strategy/bound/least_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace motley {
namespace {

class Halving {
 public:
  Halving(const CostModel& costs, OpId op, DeviceIndex device)
      : costs_(costs), op_(op), device_(device), dispatch_(costs.dispatch(device).value) {}

  LeastCost over(std::int64_t most) {
    const double first = visit(1), last = visit(most);
    halve(1, first, most, last, 0);
    return {Seconds(once_), Seconds(sample_)};
  }

 private:
  double visit(std::int64_t batch) {
    const double cost = costs_.op(op_, device_, batch).time.value + dispatch_;
    once_ = std::min(once_, cost);
    sample_ = std::min(sample_, cost / static_cast<double>(batch));
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
  double dispatch_;
  double once_ = std::numeric_limits<double>::infinity();
  double sample_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<LeastCost> least_costs(const CostModel& costs, OpId op, const std::vector<DeviceIndex>& devices,
                                   std::int64_t most) {
  std::vector<LeastCost> least;
  least.reserve(devices.size());
  for (const DeviceIndex device : devices) least.push_back(Halving(costs, op, device).over(most));
  return least;
}

bool meets_batch(const Graph& graph, const Op& op) {
  const auto split = [&](TensorId tensor) {
    return tensor != kNone && graph.tensors[static_cast<std::size_t>(tensor)].layout.kind == BatchLayout::Kind::kSplit;
  };
  return std::ranges::any_of(op.inputs, split) || std::ranges::any_of(op.outputs, split);
}

}  // namespace motley
