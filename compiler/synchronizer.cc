#include "compiler/synchronizer.h"

#include <algorithm>
#include <numeric>

namespace motley {
namespace {

// How busy the parameters' servers keep channels and devices.
class ServerLoads {
 public:
  explicit ServerLoads(const CompilerTables& tables)
      : tables_(tables),
        channels_(static_cast<std::size_t>(tables.cluster.channel_count())),
        load_(channels_ + static_cast<std::size_t>(tables.devices())) {}

  // Chooses the server of a parameter of so many bytes.
  DeviceIndex add(OpId update, Bytes bytes, const std::vector<DeviceIndex>& holders) {
    DeviceIndex best = kNone;
    double least = 0;
    for (DeviceIndex server : worth_weighing(update, bytes, holders)) {
      weigh(server, update, bytes, holders);
      for (const auto& [place, seconds] : added_) load_[place] += seconds;
      double busiest = 0;
      for (const auto& [place, seconds] : added_) busiest = std::max(busiest, load_[place]);
      for (const auto& [place, seconds] : added_) load_[place] -= seconds;
      if (best != kNone && busiest >= (1 - kEqual) * least) continue;
      best = server;
      least = busiest;
      std::swap(added_, best_added_);
    }
    for (const auto& [place, seconds] : best_added_) load_[place] += seconds;
    return best;
  }

 private:
  static constexpr std::size_t kWeighed = 64;
  static constexpr double kEqual = 1e-9;  // sums in another order

  std::size_t place(DeviceIndex device) const { return channels_ + static_cast<std::size_t>(device); }
  double seconds(ChannelIndex channel, Bytes bytes) const { return (bytes / tables_.cluster.bandwidth(channel)).value; }
  // The sums and the update.
  double work(DeviceIndex server, OpId update, Bytes bytes, std::size_t holders) const {
    return tables_.costs.op(update, server, 1).time.value +
           static_cast<double>(holders - 1) * tables_.costs.memory_pass(server, bytes).value;
  }

  // What the server would add: for each other holder the gradient one way and the weights the other, and its own work.
  void weigh(DeviceIndex server, OpId update, Bytes bytes, const std::vector<DeviceIndex>& holders) {
    added_.clear();
    for (DeviceIndex other : holders) {
      if (other == server) continue;
      for (const auto& [from, to] : {std::pair{other, server}, std::pair{server, other}}) {
        for (ChannelIndex channel : tables_.cluster.route(from, to)) {
          added_.emplace_back(static_cast<std::size_t>(channel), seconds(channel, bytes));
        }
      }
    }
    added_.emplace_back(place(server), work(server, update, bytes, holders.size()));
  }

  // The holders whose own device and nearest channels, through which all its ways lead, would be least busy, these
  // first. A slow link of some other holder is as busy whoever serves, and must not make all choices equal.
  std::vector<DeviceIndex> worth_weighing(OpId update, Bytes bytes, const std::vector<DeviceIndex>& holders) const {
    std::vector<std::pair<double, DeviceIndex>> near;
    for (DeviceIndex server : holders) {
      const DeviceIndex other = server == holders[0] ? holders[1] : holders[0];
      double busiest = load_[place(server)] + work(server, update, bytes, holders.size());
      for (ChannelIndex channel :
           {tables_.cluster.route(other, server).back(), tables_.cluster.route(server, other).front()}) {
        const double traffic = static_cast<double>(holders.size() - 1) * seconds(channel, bytes);
        busiest = std::max(busiest, load_[static_cast<std::size_t>(channel)] + traffic);
      }
      near.emplace_back(busiest, server);
    }
    const std::size_t count = std::min(near.size(), kWeighed);
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
    std::vector<DeviceIndex> least;
    for (std::size_t i = 0; i < count; ++i) least.push_back(near[i].second);
    return least;
  }

  const CompilerTables& tables_;
  const std::size_t channels_;
  std::vector<double> load_;  // seconds, by channel, then by device
  std::vector<std::pair<std::size_t, double>> added_, best_added_;
};

}  // namespace

void GradientParts::add(const Resharder& resharder, const Placement& placement, std::int32_t micro_batch) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    for (TensorId part : tables_.parameters[p].parts) {
      const OpId maker = tables_.graph.tensors[static_cast<std::size_t>(part)].producer;
      for (const Replica& replica : placement.replicas(tables_.tensors[static_cast<std::size_t>(part)].home)) {
        const NodeId value = resharder.find(part, replica.device);
        if (value != kNone) parts_[p].push_back({replica.device, order_.place(maker, micro_batch), value});
      }
    }
  }
}

void GradientParts::clear() {
  for (std::vector<Part>& parts : parts_) parts.clear();
}

std::vector<NodeId> GradientParts::of(std::int32_t parameter, DeviceIndex device) const {
  std::vector<Part> here;
  for (const Part& part : parts_[static_cast<std::size_t>(parameter)]) {
    if (part.device == device) here.push_back(part);
  }
  std::ranges::stable_sort(here, {}, &Part::pass);
  std::vector<NodeId> values;
  values.reserve(here.size());
  for (const Part& part : here) values.push_back(part.value);
  return values;
}

Synchronizer::Synchronizer(TaskWriter& writer, Resharder& resharder, std::span<const Placement> placements,
                           const Strategy& strategy, const PassOrder& order)
    : writer_(writer),
      resharder_(resharder),
      placements_(placements),
      strategy_(strategy),
      order_(order),
      tables_(writer.tables()),
      gradients_(tables_, order),
      weights_(tables_.parameters.size()),
      servers_(tables_.parameters.size(), kNone) {
  for (const ParameterInfo& parameter : tables_.parameters) sets_.push_back(holders_of(parameter));
  choose_servers();
}

void Synchronizer::begin(std::int32_t micro_batch) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    for (const auto& [device, weights] : weights_[i]) {
      resharder_.set(weights.versions[static_cast<std::size_t>(order_.version(tables_.parameters[i], micro_batch))]);
    }
  }
}

void Synchronizer::update(std::size_t batch) {
  batch_ = batch;
  for (std::size_t i = 0; i < tables_.parameters.size(); ++i) {
    const std::vector<DeviceIndex>& devices = holders(sets_[i]);
    const auto index = static_cast<std::int32_t>(i);
    if (devices.size() == 1) {
      update(index, devices[0], local_gradient(index, devices[0]));
    } else if (servers_[i] != kNone) {
      serve(index, servers_[i]);
    } else {
      add_to_bucket(index);
    }
  }
  for (const Bucket& bucket : std::exchange(open_, {})) reduce(bucket);
  gradients_.clear();
}

std::int32_t Synchronizer::holders_of(const ParameterInfo& parameter) {
  for (const auto& [users, set] : set_of_users_) {
    const auto same = [&](GroupId a, GroupId b) {
      return std::ranges::all_of(placements_, [&](const Placement& one) { return one.same(a, b); });
    };
    if (std::equal(users.begin(), users.end(), parameter.users.begin(), parameter.users.end(), same)) return set;
  }
  std::vector<DeviceIndex> devices;
  for (GroupId user : parameter.users) {
    for (const Placement& placement : placements_) {
      for (const Replica& replica : placement.replicas(user)) devices.push_back(replica.device);
    }
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
// touches least busy.
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
  ServerLoads loads(tables_);
  for (std::int32_t i : order) {
    const auto index = static_cast<std::size_t>(i);
    servers_[index] = loads.add(tables_.parameters[index].update, Bytes(bytes_of(i)), holders(sets_[index]));
  }
}

// The sum of what the device's own groups found; zeros when no gradient reached it. Of several micro-batches, each
// part goes into the sum when it is there.
NodeId Synchronizer::local_gradient(std::int32_t index, DeviceIndex device) {
  const ParameterInfo& parameter = tables_.parameters[static_cast<std::size_t>(index)];
  const std::vector<NodeId> parts = gradients_.of(index, device);
  if (parts.empty()) return writer_.fill(parameter.update, parameter.gradient, device, 0, 0.0);
  if (parts.size() == 1) return parts[0];
  if (placements_.size() == 1) return writer_.sum(parameter.update, parts, parameter.gradient);
  NodeId sum = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    sum = i == 1 ? writer_.sum(parameter.update, std::span(parts).first(2), parameter.gradient)
                 : writer_.add_to(parameter.update, sum, parts[i]);
    // At once, lest the parts pile up.
    writer_.set_pass(writer_.at(sum).maker, writer_.pass_of(writer_.at(parts[i]).maker));
  }
  return sum;
}

Synchronizer::Weights& Synchronizer::weights_of(std::int32_t index, DeviceIndex device) {
  const ParameterInfo& parameter = tables_.parameters[static_cast<std::size_t>(index)];
  Weights& weights = weights_[static_cast<std::size_t>(index)][device];
  if (weights.versions.empty()) {
    weights.versions = {resharder_.need(parameter.parameter, device, 0, 0, parameter.update)};
  }
  return weights;
}

bool Synchronizer::is_taken(std::int32_t index, std::int32_t version) const {
  const ParameterInfo& parameter = tables_.parameters[static_cast<std::size_t>(index)];
  for (std::int32_t m = order_.batches()[batch_].end; m < order_.batches().back().end; ++m) {
    if (order_.version(parameter, m) == version) return true;
  }
  return false;
}

NodeId Synchronizer::copy(std::int32_t index, NodeId weights, NodeId into) {
  const ParameterInfo& parameter = tables_.parameters[static_cast<std::size_t>(index)];
  const NodeId made = writer_.scale(parameter.update, weights, 1.0, into);
  writer_.set_pass(writer_.at(made).maker, order_.place_update(parameter, batch_));
  return made;
}

// The newest version where it may be written over.
NodeId Synchronizer::writable(std::int32_t index, DeviceIndex device) {
  Weights& weights = weights_of(index, device);
  const NodeId newest = weights.versions.back(), state = weights.versions.front();
  const auto version = static_cast<std::int32_t>(weights.versions.size() - 1);
  const bool stays = writer_.storage_of(newest) == state;
  if (!is_taken(index, version) && (stays || !last_batch())) {
    if (stays) weights.in_state = version + 1;
    return newest;
  }
  if (is_taken(index, weights.in_state)) return copy(index, newest);
  weights.in_state = version + 1;
  return copy(index, newest, state);
}

NodeId Synchronizer::update(std::int32_t index, DeviceIndex device, NodeId gradient) {
  const ParameterInfo& parameter = tables_.parameters[static_cast<std::size_t>(index)];
  const NodeId weights = writable(index, device);
  std::vector<NodeId> inputs;
  for (TensorId input : tables_.graph.ops[static_cast<std::size_t>(parameter.update)].inputs) {
    inputs.push_back(input == parameter.parameter  ? weights
                     : input == parameter.gradient ? gradient
                                                   : resharder_.need(input, device, 0, 0, parameter.update));
  }
  const NodeId updated = writer_.add_value(parameter.parameter, device, 0, 0, weights);
  const TaskId task = writer_.compute(parameter.update, device, 1, inputs, {&updated, 1});
  writer_.set_pass(task, order_.place_update(parameter, batch_));
  writer_.after_readers(weights, task);
  weights_of(index, device).versions.push_back(updated);
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
      parts.push_back(local_gradient(parameter, member));
    }
  }
  const ParameterInfo& last = tables_.parameters[static_cast<std::size_t>(bucket.parameters.back())];
  const std::vector<NodeId> sums = writer_.all_reduce(last.update, members, parts);
  for (std::size_t m = 0, next = 0; m < members.size(); ++m) {
    for (std::int32_t parameter : bucket.parameters) {
      update(parameter, members[m], sums[next++]);
    }
  }
}

void Synchronizer::serve(std::int32_t index, DeviceIndex server) {
  const ParameterInfo& parameter = tables_.parameters[static_cast<std::size_t>(index)];
  const std::vector<DeviceIndex>& devices = holders(sets_[static_cast<std::size_t>(index)]);
  NodeId sum = local_gradient(index, server);
  for (DeviceIndex device : devices) {
    if (device == server) continue;
    const NodeId part = local_gradient(index, device);
    // The last weights are written over the state when they arrive, which is after this part was sent: so whoever
    // reads the state on this device's compute stream comes before it there.
    if (last_batch()) writer_.after_readers(weights_of(index, device).versions.front(), writer_.at(part).maker);
    const NodeId received = writer_.transfer(parameter.update, part, server);
    const NodeId both[] = {sum, received};
    sum = writer_.sum(parameter.update, both, parameter.gradient);
  }
  NodeId updated = update(index, server, sum);
  // Messages are on their way while the next update writes over the weights: so they take a copy.
  if (!last_batch()) updated = copy(index, updated);
  for (DeviceIndex device : devices) {
    if (device != server) send_back(index, updated, device);
  }
}

void Synchronizer::send_back(std::int32_t index, NodeId updated, DeviceIndex device) {
  const OpId op = tables_.parameters[static_cast<std::size_t>(index)].update;
  Weights& weights = weights_of(index, device);
  const NodeId state = weights.versions.front();
  NodeId received = writer_.transfer(op, updated, device, last_batch() ? state : kNone);
  if (!last_batch() && !is_taken(index, weights.in_state)) {
    received = copy(index, received, state);
    weights.in_state = static_cast<std::int32_t>(weights.versions.size());
  }
  weights.versions.push_back(received);
}

}  // namespace motley
