#include "strategy/policy/situation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "strategy/alike.h"

namespace motley {

namespace {

// Work on an eighth of the batch tells what of it does not shrink with the batch.
constexpr std::int64_t kPart = 8;

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

}  // namespace

float log_ratio(double ratio) { return static_cast<float>(0.5 * std::log(std::max(ratio, 0.0) + 3e-4)); }

Situation::Situation(const Evaluator& judge) : evaluator(judge), order(model_order(judge.graph())) {
  const Cluster& cluster = evaluator.cluster();
  const std::vector<GroupWork> by_group = group_work(evaluator.graph(), cluster, evaluator.costs(), evaluator.batch());
  const std::int64_t part = std::max<std::int64_t>(1, evaluator.batch() / kPart);
  const std::vector<GroupWork> of_part = group_work(evaluator.graph(), cluster, evaluator.costs(), part);
  const double ratio = static_cast<double>(part) / static_cast<double>(evaluator.batch());
  place_of.resize(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto group = static_cast<std::size_t>(order[place]);
    place_of[group] = static_cast<std::int32_t>(place);
    work.push_back(by_group[group]);
    const double whole = least(by_group[group].seconds), small = least(of_part[group].seconds);
    const double constant = ratio < 1 ? (small - ratio * whole) / (1 - ratio) : 0;
    fixed.push_back(whole > 0 ? std::clamp(constant / whole, 0.0, 1.0) : 1.0);
  }
  iteration = iteration_seconds(work, cluster);
  double all = 0;
  for (double& seconds : iteration) {
    seconds = std::max(seconds, 1e-12);
    all += 1 / seconds;
  }
  ideal = 1 / all;
  for (DeviceIndex d = 0; d < static_cast<DeviceIndex>(iteration.size()); ++d) {
    speed.push_back(1 / iteration[d] / all);
    room.push_back(static_cast<double>((cluster.devices[d].usable() - evaluator.costs().context(d)).value));
  }
  find_tokens();
  find_edges();
  describe_groups();
  describe_tokens();
  describe_costs();
}

std::vector<std::int32_t> Situation::all_places() const {
  std::vector<std::int32_t> all(places());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void Situation::find_tokens() {
  tokens = alike_devices(evaluator.cluster(), evaluator.costs(), Near::kNode);
  token_of.resize(evaluator.cluster().devices.size());
  for (std::size_t token = 0; token < tokens.size(); ++token) {
    for (const DeviceIndex device : tokens[token]) token_of[device] = static_cast<std::int32_t>(token);
  }
}

void Situation::find_edges() {
  const Graph& graph = evaluator.graph();
  std::map<std::pair<std::int32_t, std::int32_t>, double> bytes;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const OpId producer = graph.tensors[t].producer;
    if (producer == kNone || graph.ops[producer].kind != OpKind::kForward) continue;
    const std::int32_t from = place_of[graph.ops[producer].group];
    std::vector<std::int32_t> users;
    for (const OpId user : graph.consumers[t]) {
      if (graph.ops[user].kind == OpKind::kForward) users.push_back(place_of[graph.ops[user].group]);
    }
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    for (const std::int32_t to : users) {
      if (to != from) bytes[{from, to}] += static_cast<double>(graph.tensors[t].bytes(evaluator.batch()).value);
    }
  }
  edges_of.resize(places());
  for (const auto& [ends, size] : bytes) {
    edges_of[ends.first].push_back(static_cast<std::int32_t>(edges.size()));
    edges_of[ends.second].push_back(static_cast<std::int32_t>(edges.size()));
    edges.push_back({ends.first, ends.second, size});
  }
}

void Situation::describe_tokens() {
  const Cluster& cluster = evaluator.cluster();
  const std::size_t n = tokens.size();
  rate.assign(n * n, 0);
  std::vector<double> latency(n * n, 0), crowd(n * n, 1);
  std::map<ChannelIndex, double> crossing;  // ways over a channel
  std::vector<ChannelIndex> narrowest(n * n, -1);
  double all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t at = i * n + j;
      const DeviceIndex from = tokens[i].front();
      const DeviceIndex to = i == j ? tokens[j].back() : tokens[j].front();
      if (from == to) {
        rate[at] = 1e18;  // one device needs no link to itself
        continue;
      }
      const double ways = static_cast<double>(tokens[i].size() * tokens[j].size());
      all += ways;
      const std::vector<ChannelIndex> route = cluster.route(from, to);
      rate[at] = cluster.bandwidth(from, to).value;
      latency[at] = cluster.latency(from, to).value;
      for (const ChannelIndex channel : route) {
        crossing[channel] += ways;
        if (narrowest[at] < 0 || cluster.bandwidth(channel) < cluster.bandwidth(narrowest[at])) narrowest[at] = channel;
      }
    }
  }
  for (std::size_t at = 0; at < n * n; ++at) {
    if (narrowest[at] >= 0) crowd[at] = crossing[narrowest[at]] / std::max(all, 1.0);
  }

  double state = 0, active = 0, parameters = 0;
  for (const GroupWork& group : work) {
    state += static_cast<double>(group.state_bytes);
    active += static_cast<double>(group.activation_bytes);
    parameters += static_cast<double>(group.parameter_bytes);
  }
  const double fastest = least(iteration);
  for (std::size_t i = 0; i < n; ++i) {
    const DeviceIndex device = tokens[i].front();
    double widest = 0, shortest = 1e9, within = 0;
    for (std::size_t j = 0; j < n; ++j) {
      if (rate[i * n + j] < 1e18) {
        widest = std::max(widest, rate[i * n + j]);
        shortest = std::min(shortest, latency[i * n + j]);
      }
    }
    if (tokens[i].size() > 1) within = rate[i * n + i];
    const double count = static_cast<double>(tokens[i].size());
    token_features.insert(
        token_features.end(),
        {log_ratio(fastest / iteration[device]), static_cast<float>(speed[device] * count),
         static_cast<float>(speed[device]), log_ratio(room[device] / std::max(state, 1.0)),
         log_ratio(room[device] / std::max(state + active, 1.0)),
         widest > 0 ? log_ratio(parameters / widest / ideal) : 0.0F,
         widest > 0 ? log_ratio(active / widest / ideal) : 0.0F,
         within > 0 ? log_ratio(parameters / within / ideal) : 0.0F,
         widest > 0 ? log_ratio(shortest / ideal * 1e3) : 0.0F, static_cast<float>(std::log2(count) / 3)});
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t at = i * n + j;
      const bool self = i == j && tokens[i].size() == 1;
      const Device& other = cluster.devices[tokens[j].front()];
      link_features.insert(
          link_features.end(),
          {self ? -4.0F : log_ratio(parameters / rate[at] / ideal), self ? -4.0F : log_ratio(active / rate[at] / ideal),
           self ? -4.0F : log_ratio(latency[at] / ideal * 1e3), static_cast<float>(crowd[at]), i == j ? 1.0F : 0.0F,
           other.node == cluster.devices[device].node ? 1.0F : 0.0F});
    }
  }
}

void Situation::describe_groups() {
  const std::size_t n = places();
  double time = 0, state = 0, active = 0, parameters = 0, memory = 0;
  for (std::size_t g = 0; g < n; ++g) {
    time += least(work[g].seconds);
    state += static_cast<double>(work[g].state_bytes);
    active += static_cast<double>(work[g].activation_bytes);
    parameters += static_cast<double>(work[g].parameter_bytes);
  }
  for (const double bytes : room) memory += std::max(bytes, 1.0);
  std::vector<double> in(n, 0), out(n, 0);
  for (const Edge& edge : edges) {
    out[edge.from] += edge.bytes;
    in[edge.to] += edge.bytes;
  }
  // Of the cluster as a whole: what the model's bytes would take over its narrowest way.
  const Cluster& cluster = evaluator.cluster();
  const auto devices = static_cast<double>(cluster.devices.size());
  double narrow = 1e18, wide = 0;
  for (const Link& link : cluster.links) {
    narrow = std::min(narrow, link.bandwidth.value);
    wide = std::max(wide, link.bandwidth.value);
  }
  const double most = *std::max_element(room.begin(), room.end());
  for (std::size_t g = 0; g < n; ++g) {
    const GroupWork& one = work[g];
    const double seconds = least(one.seconds);
    const double share = time > 0 ? seconds / time : 0;
    const auto forward = *std::min_element(one.forward_seconds.begin(), one.forward_seconds.end());
    const auto part = [&](auto bytes, double of) {
      return log_ratio(static_cast<double>(bytes) / std::max(of, 1.0) * static_cast<double>(n));
    };
    const double at = n > 1 ? static_cast<double>(g) / static_cast<double>(n - 1) : 0;
    group_features.insert(group_features.end(),
                          {log_ratio(share * static_cast<double>(n)),
                           static_cast<float>(seconds > 0 ? forward / seconds : 0),
                           static_cast<float>(fixed[g]),
                           part(one.parameter_bytes, parameters),
                           part(one.state_bytes, state),
                           part(one.activation_bytes, active),
                           part(one.kept_bytes, active),
                           part(in[g], active),
                           part(out[g], active),
                           log_ratio(static_cast<double>(one.parameter_bytes) / wide / std::max(share * ideal, 1e-12)),
                           log_ratio(out[g] / wide / std::max(share * ideal, 1e-12)),
                           log_ratio(static_cast<double>(one.state_bytes) / most),
                           static_cast<float>(at),
                           static_cast<float>(std::log2(static_cast<double>(n)) / 4),
                           static_cast<float>(std::log2(devices) / 3),
                           log_ratio(state / memory),
                           log_ratio(active / memory),
                           log_ratio(parameters / narrow / ideal),
                           log_ratio(active / narrow / ideal),
                           log_ratio(static_cast<double>(evaluator.batch()) / devices / 8)});
  }

  edge_features.assign(n * n * kEdgeFeatures, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float* const to = &edge_features[(i * n + j) * kEdgeFeatures];
      to[2] = static_cast<float>(std::abs(static_cast<double>(i) - static_cast<double>(j)) / static_cast<double>(n));
      to[3] = i == j ? 1.0F : 0.0F;
    }
  }
  for (const Edge& edge : edges) {
    const float size = 5 + log_ratio(edge.bytes / std::max(active, 1.0) * static_cast<double>(n));  // above 0
    edge_features[(static_cast<std::size_t>(edge.from) * n + edge.to) * kEdgeFeatures] = size / 5;
    edge_features[(static_cast<std::size_t>(edge.to) * n + edge.from) * kEdgeFeatures + 1] = size / 5;
  }
}

void Situation::describe_costs() {
  for (const GroupWork& one : work) {
    const double fastest = std::max(least(one.seconds), 1e-12);
    const double even = ideal / static_cast<double>(places());
    for (const std::vector<DeviceIndex>& devices : tokens) {
      const DeviceIndex device = devices.front();
      const double bytes = std::max(room[device], 1.0);
      const auto active = static_cast<double>(one.activation_bytes), state = static_cast<double>(one.state_bytes);
      cross_features.insert(
          cross_features.end(),
          {log_ratio(one.seconds[device] / fastest), log_ratio(one.seconds[device] / even), log_ratio(state / bytes),
           log_ratio(active / bytes), state > bytes ? 1.0F : 0.0F, state + active > bytes ? 1.0F : 0.0F});
    }
  }
}

}  // namespace motley
