#include "strategy/chain.h"

#include <algorithm>

#include "strategy/work.h"

namespace motley {

Chain::Chain(const Graph& graph) : graph_(graph), order_(model_order(graph)), place_(order_.size()) {
  for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
  may_cut_.assign(order_.size() + 1, 1);
  for (const auto& [from, to] : edges_between_groups(graph)) {
    for (std::size_t i = place_[to] + 1; i <= place_[from]; ++i) may_cut_[i] = 0;  // it flows back: one stage
  }
}

std::vector<double> Chain::crossing(std::int64_t samples) const {
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

}  // namespace motley
