#include "compiler/strategy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace motley {

std::string to_string(GradientMethod method) {
  return method == GradientMethod::kAllReduce ? "all-reduce" : "parameter-server";
}

std::optional<GradientMethod> parse_gradient_method(std::string_view text) {
  for (const GradientMethod method : {GradientMethod::kAllReduce, GradientMethod::kParameterServer}) {
    if (text == to_string(method)) return method;
  }
  return std::nullopt;
}

std::string to_string(Recompute recompute) {
  static constexpr std::array kNames = {"none", "selective", "full"};
  return kNames[static_cast<std::size_t>(recompute)];
}

std::optional<Recompute> parse_recompute(std::string_view text) {
  for (const Recompute one : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (text == to_string(one)) return one;
  }
  return std::nullopt;
}

bool has_stages(const Strategy& strategy) {
  return std::ranges::any_of(strategy.groups, [](const GroupDecision& group) { return group.stage > 0; });
}

std::vector<std::int64_t> split_batch(const std::vector<Share>& shares, std::int64_t batch) {
  const auto count = static_cast<std::int64_t>(shares.size());
  if (batch < count || count == 0) return {};
  double total = 0;
  for (const Share& share : shares) total += share.weight;
  // One sample is everybody's; the ideal share is cut to whole samples, never below that.
  std::vector<std::int64_t> samples(shares.size());
  std::vector<double> remainders(shares.size());
  std::int64_t given = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double ideal = shares[i].weight / total * static_cast<double>(batch);
    // 1e-9 keeps 0.1 / 0.3 * 9 at 3 samples.
    samples[i] = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(ideal + 1e-9)));
    remainders[i] = ideal - static_cast<double>(samples[i]);
    given += samples[i];
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  while (given != batch) {
    const bool give = given < batch;
    // Rounded, so that equal weights do not part by the last bit; ties go to the first share.
    const auto need = [&](std::size_t i) { return std::round(remainders[i] * 1e9) * (give ? 1 : -1); };
    std::size_t best = order.size();
    for (std::size_t i : order) {
      if (!give && samples[i] == 1) continue;
      if (best == order.size() || need(i) > need(best)) best = i;
    }
    const std::int64_t step = give ? 1 : -1;
    samples[best] += step;
    remainders[best] -= static_cast<double>(step);
    given += step;
  }
  return samples;
}

}  // namespace motley
