#pragma once

// Flows that share channels max-min fairly: the fluid model of transfers.
//
// A flow f has a route, a set of channels, and gets a rate r_f > 0. A channel c has a capacity C_c; the sum of the
// rates of the flows that cross it never exceeds C_c. Rates are max-min fair: no rate can be raised without lowering
// that of a flow that is no faster. They are unique: they are those rates at which every flow has a bottleneck, a full
// channel on which no flow is faster (Bertsekas, Gallager: Data Networks, 2nd ed. 1992, section 6.5.2). Progressive
// filling finds them: raise the level of all rates together until some channel is full; freeze the flows that cross it;
// go on with the others and what the channels have left.
//
// Worked: channels a, b, c with capacities 10, 4, 9 B/s; flow 1 over {a}, 2 over {a, b}, 3 over {b, c}, 4 over {c}.
//   a would be full at a level of 10/2 = 5, b at 4/2 = 2, c at 9/2 = 4.5. At 2, b is: r_2 = r_3 = 2; left a 8, c 7.
//   At 7/1 = 7, c is: r_4 = 7.   At 8/1 = 8, a is: r_1 = 8.
//
// When flows start or end, the filling is repeated only where it takes another course than before. A flow is held at
// its old rate until it must move. As the level rises,
//   - a channel is full at the level L at which  sum of r_f over settled f + sum of min(r_f, L) over held f + L *
//   number
//     of moving f = C_c: its moving flows settle at L, and so do held ones that were faster;
//   - a channel that used to be the bottleneck of flows at the level L, and now is not full at it, sets these moving;
//   - a started flow moves from the level 0.
// Only channels that a moved flow crosses are looked at, and of those where one ended or was slowed only those that are
// somebody's bottleneck: where no flow changed, the filling is the same as before.
//
// In the worked system, flow 3 ends, so b and c are looked at. b was full at 2 and is not any more: at 2, flow 2 moves,
// and a, which it crosses, is looked at: min(8, L) + L = 10 at L = 5. At 4, b is full: r_2 = 4. a is looked at again:
// 4 + min(8, L) = 10 at 6. At 6, a is full: flow 1 is slowed to r_1 = 6. At 7, c is not full any more: flow 4 moves.
// At 9, c is full: r_4 = 9.
//
// "Full" is meant to within 1e-12 of the capacity. Not thread-safe; no allocation once the largest numbers of flows,
// in the network and on each channel, have been seen.

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "proto/cluster.h"
#include "simulator/indexed_heap.h"

namespace motley {

class FlowNetwork {
 public:
  explicit FlowNetwork(const Cluster& cluster);

  // Starts a flow at `now`, which is not before any earlier call's. `route`, of distinct channels, must outlive the
  // flow. `key` is the caller's name for it; flows may share one. Flows that start or end at one time are solved
  // together.
  void start(Seconds now, std::span<const ChannelIndex> route, double bytes, std::int32_t key);
  void start(Seconds now, std::vector<ChannelIndex>&& route, double bytes, std::int32_t key) = delete;  // would be gone

  // When the next flow ends, were no other to start before; infinity when there is none.
  Seconds next_end();
  // Ends that flow (of several at one time, the one that first had a rate); returns its key.
  std::int32_t end_next();

  BytesPerSecond rate(std::int32_t key);      // of a flow with that key; 0 when none runs
  BytesPerSecond load(ChannelIndex channel);  // the sum of the rates over it
  double carried(ChannelIndex channel) const { return channels_[channel].carried; }  // bytes of all flows so far

 private:
  enum class State : std::uint8_t { kHeld, kMoving, kSettled };
  struct Share {  // of a flow, while rates are solved
    double rate = 0;
    ChannelIndex bottleneck = -1;
    State state = State::kHeld;
  };
  struct Flow {
    std::span<const ChannelIndex> route;
    double remaining = 0;  // bytes at `since`
    double since = 0;
    double rate = 0;
    double most = 0;  // the least capacity on its route
    std::int32_t key = 0;
    bool runs = false;
    bool timed = false;  // its end is in ends_
  };
  struct Channel {
    double capacity = 0;
    double most = 0;  // the sum of its flows' Flow::most
    double carried = 0;
    std::vector<std::int32_t> flows;  // that cross it
    std::int32_t slowing = 0;         // flows whose bottleneck it is
    double due = 0;                   // the level at which it is looked at; infinity when it is not
    double full = 0;                  // what weigh() found: the level at which it is full
    double held = 0;                  // ... and that of the held flows whose bottleneck it is; infinity when none is
    std::int32_t moving = 0;          // flows; exact once weighed
    bool slows = false;               // ... and whether held flows are faster
    bool stale = false;               // weigh() would find something else
    bool queued = false;              // in unweighed_
  };
  struct Due {
    double level;
    ChannelIndex channel;
    bool operator<(const Due& other) const {  // std's heaps have the greatest first
      return level != other.level ? level > other.level : channel > other.channel;
    }
  };
  void look_at(ChannelIndex channel);
  void weigh(ChannelIndex channel);
  double fill_level(const Channel& channel, double left);
  void schedule(ChannelIndex channel);
  void move(std::int32_t flow);
  void settle(std::int32_t flow, double level, ChannelIndex bottleneck);
  void fill(ChannelIndex channel, double level);
  void release(ChannelIndex channel);
  void solve();
  void apply();
  double end_at(std::int32_t flow, double rate);

  std::vector<Channel> channels_;
  std::vector<Flow> flows_;
  std::vector<Share> shares_;         // by flow
  std::vector<std::int32_t> unused_;  // places in flows_
  IndexedHeap ends_;                  // of flows, by time
  double now_ = 0;
  // Of solve(); what changes between two solves collects in the first two.
  std::vector<ChannelIndex> unweighed_;
  std::vector<std::int32_t> moved_;  // flows that are not held
  std::vector<Due> agenda_;
  std::vector<double> held_;  // rates
};

}  // namespace motley
