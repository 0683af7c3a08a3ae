#include "proto/routes.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "proto/cluster.h"

namespace motley {

Routes::Routes(const Cluster& cluster) {
  const auto devices = static_cast<VertexIndex>(cluster.devices.size());
  std::vector<std::vector<Edge>> inner(cluster.nodes.size() + cluster.switches.size());
  of_device_.resize(cluster.devices.size());
  for (std::size_t i = 0; i < cluster.links.size(); ++i) {
    const Link& link = cluster.links[i];
    const auto there = static_cast<ChannelIndex>(2 * i);
    const ChannelIndex back = link.full_duplex ? there + 1 : there;
    const auto add = [&](VertexIndex from, Edge edge) {
      if (from < devices) of_device_[from].push_back(edge);
      if (from >= devices && edge.to >= devices)
        inner[from - devices].push_back({edge.to - devices, edge.out, edge.in});
    };
    add(link.a, {link.b, there, back});
    add(link.b, {link.a, back, there});
  }
  strip(inner);
  fill_core(cluster, inner);
}

void Routes::strip(std::vector<std::vector<Edge>>& inner) {
  const std::size_t n = inner.size();
  up_.resize(n);
  depth_.assign(n, 0);
  root_.resize(n);
  place_.assign(n, -1);
  std::vector<std::size_t> degree(n);
  std::vector<char> stripped(n, 0);
  std::vector<VertexIndex> order;
  for (std::size_t v = 0; v < n; ++v) {
    degree[v] = inner[v].size();
    if (degree[v] == 1) order.push_back(static_cast<VertexIndex>(v));
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    const VertexIndex v = order[next];
    if (degree[v] != 1) continue;  // the last of a tree: it is the core
    stripped[v] = 1;
    for (const Edge& edge : inner[v]) {
      if (stripped[edge.to]) continue;
      up_[v] = edge;
      if (--degree[edge.to] == 1) order.push_back(edge.to);
    }
    degree[v] = 0;
  }
  for (std::size_t v = 0; v < n; ++v) {
    if (stripped[v]) continue;
    root_[v] = static_cast<VertexIndex>(v);
    place_[v] = static_cast<std::int32_t>(core_size_++);
  }
  // Above each stripped vertex stands one that was stripped later, or never.
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    if (!stripped[*v]) continue;
    root_[*v] = root_[up_[*v].to];
    depth_[*v] = depth_[up_[*v].to] + 1;
  }
}

// Breadth first, a layer at a time: among the ways with the fewest links a vertex takes the widest, so that the widest
// way to a vertex extends the widest way to its predecessor.
void Routes::fill_core(const Cluster& cluster, const std::vector<std::vector<Edge>>& inner) {
  core_.resize(core_size_ * core_size_);
  for (std::size_t v = 0; v < inner.size(); ++v) {
    if (place_[v] < 0) continue;
    Way* const ways = core_.data() + static_cast<std::size_t>(place_[v]) * core_size_;
    ways[place_[v]] = {0, -1, INFINITY};
    std::deque<VertexIndex> queue{static_cast<VertexIndex>(v)};
    while (!queue.empty()) {
      const VertexIndex at = queue.front();
      queue.pop_front();
      const Way here = ways[place_[at]];
      for (const Edge& edge : inner[at]) {
        if (place_[edge.to] < 0) continue;
        Way& there = ways[place_[edge.to]];
        if (there.hops < 0) {
          there.hops = here.hops + 1;
          queue.push_back(edge.to);
        }
        const double width = std::min(here.width, cluster.bandwidth(edge.out).value);
        const bool better = width > there.width || (width == there.width && edge.out < there.entry);
        if (there.hops == here.hops + 1 && better) there = {there.hops, edge.out, width};
      }
    }
  }
}

// Calls visit(channel, backwards) for the way between two hosts or switches: first those out of `from`, in order, then
// those into `to`, from the last one. False when there is no way.
template <class Visit>
bool Routes::walk(const Cluster& cluster, VertexIndex from, VertexIndex to, Visit&& visit) const {
  if (root_[from] != root_[to] && way(from, to).hops < 0) return false;
  while (from != to && (depth_[from] > 0 || depth_[to] > 0)) {
    if (depth_[from] >= depth_[to]) {
      visit(up_[from].out, false);
      from = up_[from].to;
    } else {
      visit(up_[to].in, true);
      to = up_[to].to;
    }
  }
  const auto devices = static_cast<VertexIndex>(cluster.devices.size());
  while (from != to) {
    const ChannelIndex entry = way(from, to).entry;
    visit(entry, true);
    const Link& link = cluster.links[entry / 2];
    to = (link.a - devices == to ? link.b : link.a) - devices;
  }
  return true;
}

Routes::Length Routes::length(const Cluster& cluster, VertexIndex from, VertexIndex to) const {
  Length length{0, INFINITY};
  const bool joined = walk(cluster, from, to, [&](ChannelIndex channel, bool) {
    ++length.hops;
    length.width = std::min(length.width, cluster.bandwidth(channel).value);
  });
  return joined ? length : Length{};
}

std::vector<ChannelIndex> Routes::between(const Cluster& cluster, DeviceIndex from, DeviceIndex to) const {
  if (from == to) return {};
  const auto devices = static_cast<VertexIndex>(cluster.devices.size());
  Length best;
  const Edge* out = nullptr;
  const Edge* in = nullptr;
  const auto take_if_better = [&](Length length, const Edge& first, const Edge* last) {
    const bool shorter = best.hops < 0 || length.hops < best.hops;
    if (!shorter && (length.hops > best.hops || length.width <= best.width)) return;
    best = length;
    out = &first;
    in = last;
  };
  const auto bandwidth = [&](ChannelIndex channel) { return cluster.bandwidth(channel).value; };
  for (const Edge& first : of_device_[from]) {
    if (first.to == to) take_if_better({1, bandwidth(first.out)}, first, nullptr);
    if (first.to < devices) continue;
    for (const Edge& last : of_device_[to]) {
      if (last.to < devices) continue;
      const Length length = this->length(cluster, first.to - devices, last.to - devices);
      const double width = std::min({length.width, bandwidth(first.out), bandwidth(last.in)});
      if (length.hops >= 0) take_if_better({length.hops + 2, width}, first, &last);
    }
  }
  if (out == nullptr) return {};
  std::vector<ChannelIndex> route{out->out};
  if (in == nullptr) return route;
  std::vector<ChannelIndex> end{in->in};
  walk(cluster, out->to - devices, in->to - devices,
       [&](ChannelIndex channel, bool backwards) { (backwards ? end : route).push_back(channel); });
  route.insert(route.end(), end.rbegin(), end.rend());
  return route;
}

std::optional<std::pair<DeviceIndex, DeviceIndex>> Routes::unjoined(const Cluster& cluster) const {
  const auto count = static_cast<DeviceIndex>(cluster.devices.size());
  // Mostly, all devices hang at hosts and switches that the first one's reach, and no pair needs a look.
  const auto devices = static_cast<VertexIndex>(count);
  const auto reached_from = [&](VertexIndex hub, DeviceIndex device) {
    return std::ranges::any_of(of_device_[device], [&](const Edge& edge) {
      return edge.to >= devices && way(hub, edge.to - devices).hops >= 0;
    });
  };
  for (const Edge& edge : of_device_[0]) {
    if (edge.to < devices) continue;
    DeviceIndex device = 1;
    while (device < count && reached_from(edge.to - devices, device)) ++device;
    if (device == count) return std::nullopt;
  }
  for (DeviceIndex from = 0; from < count; ++from) {
    for (DeviceIndex to = 0; to < count; ++to) {
      if (to != from && between(cluster, from, to).empty()) return std::pair{from, to};
    }
  }
  return std::nullopt;
}

}  // namespace motley
