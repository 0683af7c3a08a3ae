#include "compiler/synchronizer.h"

#include <algorithm>
#include <numeric>

namespace motley {

Synchronizer::Synchronizer(TaskWriter& writer, Resharder& resharder, const Placement& placement,
                           const Strategy& strategy)
    : writer_(writer),
      resharder_(resharder),
      placement_(placement),
      strategy_(strategy),
      tables_(writer.tables()),
      servers_(tables_.parameters.size(), kNone) {
  for (const ParameterInfo& parameter : tables_.parameters) sets_.push_back(holders_of(parameter));
}

void Synchronizer::run() {
  choose_servers();
  for (std::size_t i = 0; i < tables_.parameters.size(); ++i) {
    const ParameterInfo& parameter = tables_.parameters[i];
    const std::vector<DeviceIndex>& devices = holders(sets_[i]);
    if (devices.size() == 1) {
      update(parameter, devices[0], local_gradient(parameter, devices[0]));
    } else if (servers_[i] != kNone) {
      serve(parameter, sets_[i], servers_[i]);
    } else {
      add_to_bucket(static_cast<std::int32_t>(i));
    }
  }
  for (const Bucket& bucket : open_) reduce(bucket);
}

std::int32_t Synchronizer::holders_of(const ParameterInfo& parameter) {
  for (const auto& [users, set] : set_of_users_) {
    const auto same = [&](GroupId a, GroupId b) { return placement_.same(a, b); };
    if (std::equal(users.begin(), users.end(), parameter.users.begin(), parameter.users.end(), same)) return set;
  }
  std::vector<DeviceIndex> devices;
  for (GroupId user : parameter.users) {
    for (const Replica& replica : placement_.replicas(user)) devices.push_back(replica.device);
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  const auto known = std::find(holder_sets_.begin(), holder_sets_.end(), devices);
  const auto set = static_cast<std::int32_t>(known - holder_sets_.begin());
  if (known == holder_sets_.end()) holder_sets_.push_back(devices);
  set_of_users_.emplace_back(parameter.users, set);
  return set;
}

// Greedy, largest first: each parameter goes to the holder that leaves the busiest of all channels and devices that it
// touches least busy. A server costs each other holder's link the gradient one way and the weights the other, and its
// own device the sums and the update.
void Synchronizer::choose_servers() {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < tables_.parameters.size(); ++i) {
    const GroupDecision& decision = strategy_.groups[static_cast<std::size_t>(tables_.parameters[i].owner)];
    if (decision.gradient == GradientMethod::kParameterServer && holders(sets_[i]).size() > 1) {
      order.push_back(static_cast<std::int32_t>(i));
    }
  }
  const auto bytes_of = [&](std::int32_t i) {
    return tables_.bytes(tables_.parameters[static_cast<std::size_t>(i)].parameter, 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return bytes_of(a) > bytes_of(b); });

  const auto channels = static_cast<std::size_t>(tables_.cluster.channel_count());
  std::vector<double> load(channels + static_cast<std::size_t>(tables_.devices()));
  std::vector<std::pair<std::size_t, double>> added;
  std::vector<std::pair<std::size_t, double>> best_added;
  for (std::int32_t i : order) {
    const ParameterInfo& parameter = tables_.parameters[static_cast<std::size_t>(i)];
    const Bytes bytes(bytes_of(i));
    DeviceIndex best = kNone;
    double least = 0;
    for (DeviceIndex server : holders(sets_[static_cast<std::size_t>(i)])) {
      added.clear();
      double work = tables_.costs.op(parameter.update, server, 1).time.value;
      for (DeviceIndex other : holders(sets_[static_cast<std::size_t>(i)])) {
        if (other == server) continue;
        work += tables_.costs.memory_pass(server, bytes).value;
        for (const auto& [from, to] : {std::pair{other, server}, std::pair{server, other}}) {
          for (ChannelIndex channel : tables_.cluster.route(from, to)) {
            added.emplace_back(static_cast<std::size_t>(channel), (bytes / tables_.cluster.bandwidth(channel)).value);
          }
        }
      }
      added.emplace_back(channels + static_cast<std::size_t>(server), work);
      for (const auto& [place, seconds] : added) load[place] += seconds;
      double busiest = 0;
      for (const auto& [place, seconds] : added) busiest = std::max(busiest, load[place]);
      for (const auto& [place, seconds] : added) load[place] -= seconds;
      if (best == kNone || busiest < least) {
        best = server;
        least = busiest;
        std::swap(added, best_added);
      }
    }
    for (const auto& [place, seconds] : best_added) load[place] += seconds;
    servers_[static_cast<std::size_t>(i)] = best;
  }
}

// The sum of what the device's own groups found; zeros when no gradient reached it.
NodeId Synchronizer::local_gradient(const ParameterInfo& parameter, DeviceIndex device) {
  std::vector<NodeId> parts;
  for (TensorId part : parameter.parts) {
    const NodeId value = resharder_.find(part, device);
    if (value != kNone) parts.push_back(value);
  }
  if (parts.empty()) return writer_.fill(parameter.update, parameter.gradient, device, 0, 0.0);
  return parts.size() == 1 ? parts[0] : writer_.sum(parameter.update, parts, parameter.gradient);
}

NodeId Synchronizer::update(const ParameterInfo& parameter, DeviceIndex device, NodeId gradient) {
  const Op& op = tables_.graph.ops[static_cast<std::size_t>(parameter.update)];
  std::vector<NodeId> inputs;
  for (TensorId input : op.inputs) {
    inputs.push_back(input == parameter.gradient ? gradient : resharder_.need(input, device, 0, 0, parameter.update));
  }
  const NodeId weights = inputs[0];
  const NodeId updated = writer_.add_value(parameter.parameter, device, 0, 0, weights);
  const TaskId task = writer_.compute(parameter.update, device, 1, inputs, {&updated, 1});
  writer_.after_readers(weights, task);
  return updated;
}

void Synchronizer::add_to_bucket(std::int32_t parameter) {
  const ParameterInfo& info = tables_.parameters[static_cast<std::size_t>(parameter)];
  const std::int32_t set = sets_[static_cast<std::size_t>(parameter)];
  const DType dtype = tables_.graph.tensors[static_cast<std::size_t>(info.gradient)].dtype;
  auto bucket =
      std::find_if(open_.begin(), open_.end(), [&](const Bucket& b) { return b.holders == set && b.dtype == dtype; });
  if (bucket == open_.end()) {
    open_.push_back({set, dtype, 0, {}});
    bucket = open_.end() - 1;
  }
  bucket->parameters.push_back(parameter);
  bucket->bytes += tables_.bytes(info.gradient, 0);
  if (bucket->bytes < strategy_.bucket.value) return;
  reduce(*bucket);
  open_.erase(bucket);
}

void Synchronizer::reduce(const Bucket& bucket) {
  const std::vector<DeviceIndex>& members = holders(bucket.holders);
  std::vector<NodeId> parts;
  for (DeviceIndex member : members) {
    for (std::int32_t parameter : bucket.parameters) {
      parts.push_back(local_gradient(tables_.parameters[static_cast<std::size_t>(parameter)], member));
    }
  }
  const ParameterInfo& last = tables_.parameters[static_cast<std::size_t>(bucket.parameters.back())];
  const std::vector<NodeId> sums = writer_.all_reduce(last.update, members, parts);
  for (std::size_t m = 0, next = 0; m < members.size(); ++m) {
    for (std::int32_t parameter : bucket.parameters) {
      update(tables_.parameters[static_cast<std::size_t>(parameter)], members[m], sums[next++]);
    }
  }
}

void Synchronizer::serve(const ParameterInfo& parameter, std::int32_t set, DeviceIndex server) {
  NodeId sum = local_gradient(parameter, server);
  for (DeviceIndex device : holders(set)) {
    if (device == server) continue;
    const NodeId part = local_gradient(parameter, device);
    // The new weights are written over the old ones when they arrive, which is after this part was sent: so whoever
    // reads the old ones on this device's compute stream comes before it there.
    const NodeId weights = resharder_.need(parameter.parameter, device, 0, 0, parameter.update);
    writer_.after_readers(weights, writer_.at(part).maker);
    const NodeId received = writer_.transfer(parameter.update, part, server);
    const NodeId both[] = {sum, received};
    sum = writer_.sum(parameter.update, both, parameter.gradient);
  }
  const NodeId updated = update(parameter, server, sum);
  for (DeviceIndex device : holders(set)) {
    if (device == server) continue;
    const NodeId weights = resharder_.need(parameter.parameter, device, 0, 0, parameter.update);
    writer_.transfer(parameter.update, updated, device, weights);
  }
}

}  // namespace motley
