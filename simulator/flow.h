#pragma once

// Flows that share channels max-min fairly: the fluid model of transfers.
//
// A flow f has a route, a set of channels, and gets a rate r_f > 0. A channel c has a capacity C_c; the sum of the
// rates of the flows that cross it never exceeds C_c. Rates are max-min fair: no rate can be raised without lowering
// that of a flow that is no faster. They are unique, and progressive filling finds them (Bertsekas, Gallager: Data
// Networks, 2nd ed. 1992, section 6.5.2): raise all rates together until some channel is full; freeze the flows that
// cross it; go on with the others and what the channels have left. In each round the channel that fills first is the
// one with the least C'_c / n_c, where C'_c is what its frozen flows leave and n_c the number of flows that are not yet
// frozen.
//
// Worked: channels a, b, c with capacities 10, 4, 9 B/s; flow 1 over {a}, 2 over {a, b}, 3 over {b, c}, 4 over {c}.
//   Round 1: a 10/2 = 5, b 4/2 = 2, c 9/2 = 4.5: b is full at 2, so r_2 = r_3 = 2; left a 8, c 7.
//   Round 2: a 8/1 = 8, c 7/1 = 7: r_4 = 7.   Round 3: r_1 = 8.   All channels are full.
//
// Rates change only when flows start or end. Only flows that share a channel with the one that starts or ends can
// change, so a flow that is alone on its channels is never part of a re-solve. Not thread-safe; no allocation once the
// number of concurrent flows has been seen.

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "proto/cluster.h"

namespace motley {

class FlowNetwork {
 public:
  explicit FlowNetwork(const Cluster& cluster);

  // Starts a flow at `now`, which is not before any earlier call's. `route` must outlive the flow. `key` is the
  // caller's name for it; flows may share one.
  void start(Seconds now, const std::vector<ChannelIndex>& route, double bytes, std::int32_t key);

  // When the next flow ends, were no other to start before; infinity when there is none.
  Seconds next_end();
  // Ends that flow (of several at one time, the one that started first); returns its key.
  std::int32_t end_next();

  BytesPerSecond rate(std::int32_t key);  // of the first flow with that key; 0 when none runs
  double carried(ChannelIndex channel) const { return carried_[channel]; }  // bytes of all flows started so far

 private:
  struct Flow {
    const std::vector<ChannelIndex>* route;
    double remaining;  // bytes at `since`
    double since;
    double rate;
    double end;
    std::int32_t key;
    bool crosses;  // false: no bytes or no channel; ends at once
    bool frozen;   // scratch of solve()
  };
  bool shares_a_channel(const Flow& flow) const;
  void set_rate(Flow& flow, double rate);
  void solve();

  std::vector<double> capacity_;
  std::vector<std::int32_t> crossing_;  // running flows per channel
  std::vector<double> carried_;
  std::vector<Flow> flows_;  // running, by start
  double now_ = 0;
  bool stale_ = false;  // rates must be solved again
  // Scratch of solve().
  std::vector<double> left_;
  std::vector<std::int32_t> unfrozen_;
  std::vector<ChannelIndex> open_;
};

}  // namespace motley
