#include "simulator/flow.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace motley {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}  // namespace

FlowNetwork::FlowNetwork(const Cluster& cluster)
    : capacity_(cluster.channel_count()),
      crossing_(cluster.channel_count(), 0),
      carried_(cluster.channel_count(), 0),
      left_(cluster.channel_count()),
      unfrozen_(cluster.channel_count(), 0) {
  for (ChannelIndex channel = 0; channel < cluster.channel_count(); ++channel) {
    capacity_[channel] = cluster.bandwidth(channel).value;
  }
}

bool FlowNetwork::shares_a_channel(const Flow& flow) const {
  return std::any_of(flow.route->begin(), flow.route->end(),
                     [this](ChannelIndex channel) { return crossing_[channel] > 1; });
}

void FlowNetwork::set_rate(Flow& flow, double rate) {
  if (rate == flow.rate) return;  // its end stands, to the bit
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.since));
  flow.since = now_;
  flow.rate = rate;
  flow.end = now_ + flow.remaining / rate;
}

void FlowNetwork::start(Seconds now, const std::vector<ChannelIndex>& route, double bytes, std::int32_t key) {
  // Rates of the time before are settled first; flows that start together are solved together.
  if (now.value != now_ && stale_) solve();
  now_ = now.value;
  const bool crosses = !route.empty() && bytes > 0;
  flows_.push_back({&route, bytes, now_, 0, now_, key, crosses, false});
  Flow& flow = flows_.back();
  if (!crosses) return;  // ends at once
  for (ChannelIndex channel : route) {
    ++crossing_[channel];
    carried_[channel] += bytes;
  }
  if (shares_a_channel(flow)) {
    stale_ = true;
    return;
  }
  double rate = kInfinity;
  for (ChannelIndex channel : route) rate = std::min(rate, capacity_[channel]);
  set_rate(flow, rate);
}

Seconds FlowNetwork::next_end() {
  if (stale_) solve();
  double end = kInfinity;
  for (const Flow& flow : flows_) end = std::min(end, flow.end);
  return Seconds(end);
}

std::int32_t FlowNetwork::end_next() {
  if (stale_) solve();
  auto next =
      std::min_element(flows_.begin(), flows_.end(), [](const Flow& a, const Flow& b) { return a.end < b.end; });
  MOTLEY_CHECK(next != flows_.end(), "no flow is running");
  const Flow flow = *next;
  now_ = std::max(now_, flow.end);
  if (flow.crosses) {
    stale_ = shares_a_channel(flow);
    for (ChannelIndex channel : *flow.route) --crossing_[channel];
  }
  flows_.erase(next);
  return flow.key;
}

BytesPerSecond FlowNetwork::rate(std::int32_t key) {
  if (stale_) solve();
  for (const Flow& flow : flows_) {
    if (flow.key == key) return BytesPerSecond(flow.rate);
  }
  return BytesPerSecond(0);
}

void FlowNetwork::solve() {
  stale_ = false;
  open_.clear();
  std::size_t running = 0;
  for (Flow& flow : flows_) {
    flow.frozen = !flow.crosses;
    if (flow.frozen) continue;
    ++running;
    for (ChannelIndex channel : *flow.route) {
      if (unfrozen_[channel]++ > 0) continue;
      left_[channel] = capacity_[channel];
      open_.push_back(channel);
    }
  }
  double level = 0;  // rates only rise from round to round; rounding must not say otherwise
  while (running > 0) {
    ChannelIndex fullest = -1;
    double least = kInfinity;
    for (ChannelIndex channel : open_) {
      if (unfrozen_[channel] == 0) continue;
      const double fair = left_[channel] / unfrozen_[channel];
      if (fair < least) {
        least = fair;
        fullest = channel;
      }
    }
    level = std::max(level, least);
    for (Flow& flow : flows_) {
      if (flow.frozen || std::find(flow.route->begin(), flow.route->end(), fullest) == flow.route->end()) continue;
      flow.frozen = true;
      --running;
      set_rate(flow, level);
      for (ChannelIndex channel : *flow.route) {
        left_[channel] -= level;
        --unfrozen_[channel];
      }
    }
  }
}

}  // namespace motley
