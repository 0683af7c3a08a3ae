#include "strategy/work.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/op_knowledge.h"

namespace motley {

std::vector<GroupWork> group_work(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                  std::int64_t batch) {
  const auto devices = static_cast<DeviceIndex>(cluster.devices.size());
  std::vector<GroupWork> work(graph.groups.size());
  for (GroupWork& group : work) {
    group.seconds.assign(devices, 0);
    group.forward_seconds.assign(devices, 0);
    group.update_seconds.assign(devices, 0);
  }
  std::map<std::int32_t, DeviceIndex> first_of_class;
  std::vector<DeviceIndex> first_alike;  // the first device that costs the same
  first_alike.reserve(cluster.devices.size());
  for (DeviceIndex device = 0; device < devices; ++device) {
    first_alike.push_back(first_of_class.try_emplace(costs.cost_class(device), device).first->second);
  }
  const std::vector<char> saved = taken_by_backward(graph);
  std::vector<OpCost> alike(devices);  // of the op at hand, by the first device of a class
  for (std::size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    if (op.group == kNone) continue;
    GroupWork& group = work[op.group];
    std::int64_t kept = 0, passing = 0;
    for (DeviceIndex device = 0; device < devices; ++device) {
      const DeviceIndex like = first_alike[device];
      if (like == device) alike[device] = costs.op(static_cast<OpId>(o), device, batch);
      const OpCost& cost = alike[like];
      group.seconds[device] += cost.time.value;
      if (op.kind == OpKind::kForward) group.forward_seconds[device] += cost.time.value;
      if (op.kind == OpKind::kUpdate) group.update_seconds[device] += cost.time.value;
      passing = std::max(passing, cost.workspace.value);
      kept = std::max(kept, cost.kept.value);
    }
    if (op.kind == OpKind::kForward || op.kind == OpKind::kInputGradient) {
      for (TensorId output : op.outputs) {
        if (output != kNone) passing += graph.tensors[output].bytes(batch).value;
      }
    }
    group.passing_bytes = std::max(group.passing_bytes, passing);
    if (op.kind != OpKind::kForward) continue;
    group.activation_bytes += kept;
    group.kept_bytes += kept;
    for (TensorId output : op.outputs) {
      if (output == kNone || graph.tensors[output].alias_of != kNone) continue;
      const std::int64_t bytes = graph.tensors[output].bytes(batch).value;
      group.activation_bytes += bytes;
      if (saved[output] != 0) group.kept_bytes += bytes;
      const auto elsewhere = [&](OpId user) {
        return graph.ops[user].kind == OpKind::kForward && graph.ops[user].group != op.group;
      };
      if (std::ranges::any_of(graph.consumers[output], elsewhere)) group.handed_bytes += bytes;
    }
    for (TensorId written : op.writes) group.state_bytes += graph.tensors[written].bytes(batch).value;
  }
  for (std::size_t g = 0; g < graph.groups.size(); ++g) {
    for (TensorId parameter : graph.groups[g].parameters) {
      const std::int64_t bytes = graph.tensors[parameter].bytes(batch).value;
      work[g].parameter_bytes += bytes;
      work[g].state_bytes += bytes;
      if (graph.tensors[parameter].requires_gradient) work[g].state_bytes += bytes;
    }
  }
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kOptimizerState || tensor.state_of == kNone) continue;
    for (std::size_t g = 0; g < graph.groups.size(); ++g) {
      const std::vector<TensorId>& owned = graph.groups[g].parameters;
      if (std::find(owned.begin(), owned.end(), tensor.state_of) == owned.end()) continue;
      work[g].state_bytes += tensor.bytes(batch).value;
    }
  }
  return work;
}

std::vector<double> iteration_seconds(const std::vector<GroupWork>& work, const Cluster& cluster) {
  std::vector<double> seconds(cluster.devices.size(), 0);
  for (const GroupWork& group : work) {
    for (std::size_t device = 0; device < seconds.size(); ++device) seconds[device] += group.seconds[device];
  }
  return seconds;
}

std::vector<GroupId> model_order(const Graph& graph) {
  std::vector<GroupId> order(graph.groups.size());
  std::iota(order.begin(), order.end(), 0);
  const auto first_op = [&](GroupId group) {
    const std::vector<OpId>& ops = graph.groups[group].ops;
    return ops.empty() ? static_cast<OpId>(graph.ops.size()) : ops.front();
  };
  std::stable_sort(order.begin(), order.end(), [&](GroupId a, GroupId b) { return first_op(a) < first_op(b); });
  return order;
}

}  // namespace motley
