#include "strategy/bound/traffic.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/index.h"

namespace motley {
namespace {

void insert(std::vector<GroupId>& sorted, GroupId group) {
  const auto place = std::lower_bound(sorted.begin(), sorted.end(), group);
  if (place == sorted.end() || *place != group) sorted.insert(place, group);
}

// Bytes of the samples of a whole batch: what does not grow with them may be sent once or often.
double sample_bytes(const Tensor& tensor, std::int64_t batch) {
  const BatchExpr count = element_count(tensor.shape);
  const std::vector<std::int64_t>& factors = count.coefficients();
  if (factors.size() < 2) return 0;
  return static_cast<double>(factors[1]) * static_cast<double>(size_of(tensor.dtype).value) *
         static_cast<double>(batch);
}

// Dinic's maximum flow between devices and the rest, over the links.
class MaximumFlow {
 public:
  explicit MaximumFlow(const Cluster& cluster)
      : devices_(static_cast<VertexIndex>(cluster.devices.size())),
        source_(devices_ + static_cast<VertexIndex>(cluster.nodes.size() + cluster.switches.size())),
        edges_of_(at(source_) + 2) {
    for (const Link& link : cluster.links) add(link.a, link.b, link.bandwidth.value, link.bandwidth.value);
  }

  double run(std::span<const DeviceIndex> from) {
    constexpr double kUnbounded = 1e300;
    const VertexIndex sink = source_ + 1;
    for (DeviceIndex device = 0; device < devices_; ++device) {
      const bool inside = std::ranges::binary_search(from, device);
      inside ? add(source_, device, kUnbounded, 0) : add(device, sink, kUnbounded, 0);
    }
    double flow = 0;
    while (level(sink)) {
      next_.assign(edges_of_.size(), 0);
      while (const double more = push(source_, sink, kUnbounded)) flow += more;
    }
    return flow;
  }

 private:
  struct Edge {
    VertexIndex to;
    double left;
  };
  void add(VertexIndex a, VertexIndex b, double forth, double back) {
    edges_of_[at(a)].push_back(static_cast<std::int32_t>(edges_.size()));
    edges_.push_back({b, forth});
    edges_of_[at(b)].push_back(static_cast<std::int32_t>(edges_.size()));
    edges_.push_back({a, back});
  }
  bool level(VertexIndex sink) {
    level_.assign(edges_of_.size(), -1);
    std::vector<VertexIndex> open = {source_};
    level_[at(source_)] = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (const std::int32_t e : edges_of_[at(open[i])]) {
        const Edge& edge = edges_[at(e)];
        if (edge.left <= 0 || level_[at(edge.to)] >= 0) continue;
        level_[at(edge.to)] = level_[at(open[i])] + 1;
        open.push_back(edge.to);
      }
    }
    return level_[at(sink)] >= 0;
  }
  double push(VertexIndex vertex, VertexIndex sink, double most) {
    if (vertex == sink) return most;
    for (std::size_t& e = next_[at(vertex)]; e < edges_of_[at(vertex)].size(); ++e) {
      const std::int32_t index = edges_of_[at(vertex)][e];
      Edge& edge = edges_[at(index)];
      if (edge.left <= 0 || level_[at(edge.to)] != level_[at(vertex)] + 1) continue;
      const double pushed = push(edge.to, sink, std::min(most, edge.left));
      if (pushed <= 0) continue;
      edge.left -= pushed;
      edges_[at(index ^ 1)].left += pushed;
      return pushed;
    }
    return 0;
  }

  VertexIndex devices_, source_;
  std::vector<Edge> edges_;  // an edge and its reverse stand together
  std::vector<std::vector<std::int32_t>> edges_of_;
  std::vector<std::int32_t> level_;
  std::vector<std::size_t> next_;
};

}  // namespace

std::vector<Exchange> exchanges(const Graph& graph, std::int64_t batch) {
  std::vector<Exchange> of_tensor(graph.tensors.size());
  std::vector<char> taken_back(graph.tensors.size(), 0);  // whether the maker's backward pass takes its gradient
  const auto group_of_maker = [&](TensorId tensor) {
    const OpId producer = graph.tensors[at(tensor)].producer;
    return producer == kNone ? kNone : graph.ops[at(producer)].group;
  };
  for (const Op& op : graph.ops) {
    if (op.group == kNone || (op.kind != OpKind::kForward && !op.is_backward())) continue;
    const std::size_t gradients = op.is_backward() ? op.gradient_outputs.size() : 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId input = op.inputs[i];
      if (input == kNone) continue;
      if (i < gradients) {
        const TensorId of = graph.tensors[at(input)].gradient_of;
        if (of != kNone && group_of_maker(of) == op.group) taken_back[at(of)] = 1;
      } else if (graph.tensors[at(input)].role == TensorRole::kActivation && group_of_maker(input) != op.group) {
        insert(of_tensor[at(input)].takers, op.group);
      }
    }
    if (!op.is_backward()) continue;
    for (const TensorId output : op.outputs) {
      const TensorId of = output == kNone ? kNone : graph.tensors[at(output)].gradient_of;
      if (of != kNone && graph.tensors[at(of)].role == TensorRole::kActivation && group_of_maker(of) != op.group) {
        insert(of_tensor[at(of)].returners, op.group);
      }
    }
  }
  std::map<std::tuple<GroupId, std::vector<GroupId>, std::vector<GroupId>>, Exchange> joined;
  for (std::size_t t = 0; t < of_tensor.size(); ++t) {
    Exchange& one = of_tensor[t];
    const Tensor& tensor = graph.tensors[t];
    if (tensor.layout.kind != BatchLayout::Kind::kSplit || group_of_maker(static_cast<TensorId>(t)) == kNone) continue;
    if (taken_back[t] == 0) one.returners.clear();
    if (one.takers.empty() && one.returners.empty()) continue;
    const double bytes = sample_bytes(tensor, batch);
    Exchange& all = joined[{group_of_maker(static_cast<TensorId>(t)), std::move(one.takers), std::move(one.returners)}];
    all.bytes += bytes;
    all.gradient_bytes += bytes;
  }
  std::vector<Exchange> result;
  for (auto& [groups, all] : joined) {
    std::tie(all.maker, all.takers, all.returners) = groups;
    if (all.returners.empty()) all.gradient_bytes = 0;
    if (all.bytes > 0) result.push_back(std::move(all));
  }
  return result;
}

BytesPerSecond cut_rate(const Cluster& cluster, std::span<const DeviceIndex> devices) {
  return BytesPerSecond(MaximumFlow(cluster).run(devices));
}

}  // namespace motley
