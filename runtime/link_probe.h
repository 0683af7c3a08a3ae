#pragma once

// What the network between some ranks can do, found by sending messages.

#include <memory>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/emulation.h"

namespace motley {

struct LinkProbeOptions {
  Bytes smallest{1 << 10};  // sizes grow by factors of four
  Bytes largest{64 << 20};
  int repeats = 5;      // per size, after one that warms up
  Seconds budget{20};   // for all links together: a slow link gets smaller messages, never fewer than two sizes
  Seconds timeout{60};  // for one message
  std::shared_ptr<EmulationClock> clock = make_real_clock();
};

struct MessageTime {
  Bytes bytes;
  Seconds time;    // median
  Seconds spread;  // median absolute deviation
  Seconds least;
};

// One way between two ranks, as latency + bytes / bandwidth (see fit_link).
struct ProbedLink {
  int from = 0;
  int to = 0;
  std::vector<MessageTime> messages;  // one way, with nothing else on the network; ascending sizes
  Seconds latency;
  BytesPerSecond bandwidth;
  double fit_error = 0;  // root mean square of (fit - time) / time over the messages: how far from a line they are
  // Bandwidth of this direction with the largest message that was sent: as much goes the other way at the same time;
  // and all other ranks send as well, in pairs that share no rank. Where it is well below `bandwidth`, a half-duplex
  // link or an uplink is shared. Zero when there was no other pair.
  BytesPerSecond bandwidth_both_ways;
  BytesPerSecond bandwidth_all_pairs;
};

struct ProbedNetwork {
  std::vector<ProbedLink> links;  // every ordered pair, by `from` and `to`; the same on all ranks
  // What a message takes of the processor time of this rank's process, whether it is sent or received: an empty one,
  // and per byte.
  Seconds message_work;
  Seconds message_work_per_byte;
};

// All ranks call this with the same options. Nothing
// else may be on the network meanwhile. `control` has the same ranks and host memory; it may be `communicator` itself.
// `scratch` is 2 * options.largest bytes where messages of `communicator` live (the GPU's memory for NCCL).
ProbedNetwork probe_links(Communicator& communicator, Communicator& control, void* scratch,
                          const LinkProbeOptions& options = {});

// The line through the shortest message's least time and the largest one's median. Not least squares over all sizes:
// shapers let short messages pass in a burst, protocols change with size, and whatever else runs on the hosts holds up
// short messages most. Needs two sizes.
void fit_link(ProbedLink& link);

}  // namespace motley
