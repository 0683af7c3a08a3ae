#pragma once

// A slower network than the one at hand: messages travel over another Communicator and are given back when the modelled
// network would have delivered them. Callers sleep meanwhile. All processes share one clock, so one machine.
//
// The model. Every rank hangs by a port of its own (EmulationOptions: bandwidth each way, latency) on one switch that
// is never the bottleneck. Each way of a port is a serial resource. A message of s bytes from i to j
//   begins when it was sent, its receive was posted and the egress of i is free: b,
//   occupies the egress of i for s / bandwidth_i from b on, and
//   the ingress of j for s / bandwidth_j from b + latency_i + latency_j on;
//   the send ends at b + s / min(bandwidth_i, bandwidth_j) if both are free, the receive one latency later.
// A collective of n members begins when the last one entered and the ports are free, and takes what the ring algorithms
// take (Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms, JPDC 2009, section 3), w the least bandwidth and l
// the greatest latency between neighbours in the ring of ascending ranks:
//   all-reduce 2 (n-1)/n s / w + 2 (n-1) l;  all-gather of s in all (n-1)/n s / w + (n-1) l;
//   broadcast s / w + ceil(log2 n) l;  barrier ceil(log2 n) l.
// What the real network needs longer than the model counts as it is.

#include <memory>

#include "runtime/communicator.h"
#include "runtime/emulation.h"

namespace motley {

// All ranks of `inner` call this with their own port's options (speed and memory are not used here); they exchange
// them. Tags are below 2^29. Buffers are host memory.
std::unique_ptr<Communicator> make_emulated_communicator(std::unique_ptr<Communicator> inner,
                                                         const EmulationOptions& options,
                                                         std::shared_ptr<EmulationClock> clock, Seconds timeout);

}  // namespace motley
