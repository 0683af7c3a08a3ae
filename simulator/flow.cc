#include "simulator/flow.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace motley {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-12;  // of levels and capacities that are the same but for rounding

// A channel that its flows cannot fill to this share of its capacity is never looked at: a margin for `most`, which is
// summed up over many flows that come and go.
constexpr double kRoomy = 1 - 1e-6;

bool above(double a, double b) { return a > b * (1 + kTolerance); }
}  // namespace

FlowNetwork::FlowNetwork(const Cluster& cluster) : channels_(cluster.channel_count()) {
  for (ChannelIndex channel = 0; channel < cluster.channel_count(); ++channel) {
    channels_[channel].capacity = cluster.bandwidth(channel).value;
    channels_[channel].due = kInfinity;
  }
}

void FlowNetwork::start(Seconds now, std::span<const ChannelIndex> route, double bytes, std::int32_t key) {
  if (now.value != now_) solve();  // the rates of the time before
  now_ = now.value;
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::int32_t>(flows_.size()));
    flows_.emplace_back();
    shares_.emplace_back();
  }
  const std::int32_t flow = unused_.back();
  unused_.pop_back();
  if (bytes <= 0) route = {};
  flows_[flow] = {.route = route, .remaining = bytes, .since = now_, .key = key, .runs = true};
  if (route.empty()) {  // ends at once
    ends_.push(flow, now_);
    flows_[flow].timed = true;
    return;
  }
  double most = kInfinity;
  for (ChannelIndex channel : route) most = std::min(most, channels_[channel].capacity);
  for (ChannelIndex index : route) {
    Channel& channel = channels_[index];
    channel.flows.push_back(flow);
    channel.most += most;
    channel.carried += bytes;
  }
  flows_[flow].most = most;
  shares_[flow] = {};
  move(flow);
}

Seconds FlowNetwork::next_end() {
  // What ends now does so whatever the others' rates become.
  if (!ends_.empty() && ends_.top().key <= now_) return Seconds(ends_.top().key);
  solve();
  return Seconds(ends_.empty() ? kInfinity : ends_.top().key);
}

std::int32_t FlowNetwork::end_next() {
  now_ = std::max(now_, next_end().value);
  MOTLEY_CHECK(!ends_.empty(), "no flow is running");
  const std::int32_t flow = ends_.top().id;
  ends_.pop();
  if (!flows_[flow].route.empty()) --channels_[shares_[flow].bottleneck].slowing;
  for (ChannelIndex index : flows_[flow].route) {
    Channel& channel = channels_[index];
    *std::find(channel.flows.begin(), channel.flows.end(), flow) = channel.flows.back();
    channel.flows.pop_back();
    if (channel.slowing > 0) look_at(index);  // what others slow gains nothing here
    channel.most = channel.flows.empty() ? 0 : channel.most - flows_[flow].most;
  }
  flows_[flow].runs = false;
  unused_.push_back(flow);
  return flows_[flow].key;
}

BytesPerSecond FlowNetwork::rate(std::int32_t key) {
  solve();
  const auto flow = std::find_if(flows_.begin(), flows_.end(), [key](const Flow& f) { return f.runs && f.key == key; });
  return BytesPerSecond(flow == flows_.end() ? 0 : flow->rate);
}

BytesPerSecond FlowNetwork::load(ChannelIndex channel) {
  solve();
  const std::vector<std::int32_t>& flows = channels_[channel].flows;
  return BytesPerSecond(std::accumulate(flows.begin(), flows.end(), 0.0,
                                        [this](double sum, std::int32_t flow) { return sum + flows_[flow].rate; }));
}

void FlowNetwork::look_at(ChannelIndex index) {
  Channel& channel = channels_[index];
  channel.stale = true;
  if (channel.queued || channel.most < kRoomy * channel.capacity) return;
  channel.queued = true;
  unweighed_.push_back(index);
}

void FlowNetwork::move(std::int32_t flow) {
  shares_[flow].state = State::kMoving;
  moved_.push_back(flow);
  for (ChannelIndex channel : flows_[flow].route) look_at(channel);
}

void FlowNetwork::settle(std::int32_t flow, double level, ChannelIndex bottleneck) {
  Share& share = shares_[flow];
  const bool moved = share.state == State::kMoving;
  if (!moved) moved_.push_back(flow);
  if (share.bottleneck >= 0) --channels_[share.bottleneck].slowing;
  ++channels_[bottleneck].slowing;
  share = {level, bottleneck, State::kSettled};
  for (ChannelIndex index : flows_[flow].route) {
    Channel& channel = channels_[index];
    channel.stale = true;
    if (moved) {
      --channel.moving;  // it is full at no lower level than before: it is in time when it is due
    } else if (channel.slowing > 0 && index != bottleneck) {
      look_at(index);  // has more left for these
    }
  }
}

void FlowNetwork::weigh(ChannelIndex index) {
  Channel& channel = channels_[index];
  channel.stale = false;
  channel.full = channel.held = kInfinity;
  double settled = 0, held = 0, fastest = 0;
  channel.moving = 0;
  for (std::int32_t flow : channel.flows) {
    const Share& share = shares_[flow];
    if (share.state == State::kMoving) {
      ++channel.moving;
    } else if (share.state == State::kSettled) {
      settled += share.rate;
    } else {
      held += share.rate;
      fastest = std::max(fastest, share.rate);
      if (share.bottleneck == index) channel.held = share.rate;
    }
  }
  const double left = channel.capacity - settled;
  channel.slows = false;
  if (channel.moving > 0) {
    channel.full = (left - held) / channel.moving;
    channel.slows = channel.full < fastest;
    if (channel.slows) channel.full = fill_level(channel, left);
  } else if (held > left + kTolerance * channel.capacity) {
    channel.slows = true;
    channel.full = fill_level(channel, left);
  } else if (held >= left - kTolerance * channel.capacity) {
    channel.held = kInfinity;  // as full as ever
  }
}

// The level at which the flows of `channel` that are held, and slowed by it, fill what is `left` with those that move.
double FlowNetwork::fill_level(const Channel& channel, double left) {
  held_.clear();
  for (std::int32_t flow : channel.flows) {
    if (shares_[flow].state == State::kHeld) held_.push_back(shares_[flow].rate);
  }
  // Newton's method on a concave, piecewise linear function: from below, exact once the right piece is found.
  for (double level = left / (channel.moving + static_cast<double>(held_.size()));;) {
    double rest = left;
    std::int32_t sharing = channel.moving;
    for (double rate : held_) {
      if (rate <= level) {
        rest -= rate;
      } else {
        ++sharing;
      }
    }
    const double next = sharing == 0 ? level : rest / sharing;
    if (!above(next, level)) return level;
    level = next;
  }
}

void FlowNetwork::schedule(ChannelIndex index) {
  Channel& channel = channels_[index];
  const double level = std::min(channel.full, channel.held);
  if (level >= channel.due) return;
  channel.due = level;
  agenda_.push_back({level, index});
  std::push_heap(agenda_.begin(), agenda_.end());
}

void FlowNetwork::fill(ChannelIndex channel, double level) {
  for (std::int32_t flow : channels_[channel].flows) {
    const Share& share = shares_[flow];
    const bool slowed = share.state == State::kHeld && above(share.rate, level);
    if (share.state == State::kMoving || slowed) settle(flow, level, channel);
  }
}

void FlowNetwork::release(ChannelIndex channel) {
  for (std::int32_t flow : channels_[channel].flows) {
    if (shares_[flow].state == State::kHeld && shares_[flow].bottleneck == channel) move(flow);
  }
}

void FlowNetwork::solve() {
  if (unweighed_.empty()) return;
  while (true) {
    for (; !unweighed_.empty(); unweighed_.pop_back()) {
      channels_[unweighed_.back()].queued = false;
      weigh(unweighed_.back());
      schedule(unweighed_.back());
    }
    if (agenda_.empty()) break;
    std::pop_heap(agenda_.begin(), agenda_.end());
    const auto [level, index] = agenda_.back();
    agenda_.pop_back();
    Channel& channel = channels_[index];
    if (level != channel.due) continue;  // was due earlier
    channel.due = kInfinity;
    if (channel.stale) {
      // Moving flows that settled below the level at which they would have filled it do not.
      if (channel.moving == 0 && channel.held == kInfinity && !channel.slows) continue;
      weigh(index);
    }
    if (above(std::min(channel.full, channel.held), level)) {
      schedule(index);
    } else if (above(channel.full, level)) {
      release(index);
    } else {
      fill(index, channel.full);
    }
  }
  apply();
}

double FlowNetwork::end_at(std::int32_t index, double rate) {
  Flow& flow = flows_[index];
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.since));
  flow.since = now_;
  flow.rate = rate;
  return now_ + flow.remaining / rate;
}

void FlowNetwork::apply() {
  const bool many = 4 * moved_.size() > ends_.size();
  for (std::int32_t flow : moved_) {
    shares_[flow].state = State::kHeld;
    if (shares_[flow].rate == flows_[flow].rate) continue;  // its end stands, to the bit
    const double end = end_at(flow, shares_[flow].rate);
    const bool timed = std::exchange(flows_[flow].timed, true);
    if (many) {
      timed ? ends_.assign(flow, end) : ends_.append(flow, end);
    } else {
      timed ? ends_.change(flow, end) : ends_.push(flow, end);
    }
  }
  if (many) ends_.restore();
  moved_.clear();
}

}  // namespace motley
