#pragma once

// Messages between the devices of one job: point to point, and collectives over named groups of ranks. A rank is a
// device's place in the job. Over Gloo (gloo_communicator.h) all buffers are host memory, over NCCL
// (nccl_communicator.h) they are memory of this rank's GPU.
//
// Threads: all functions may be called from any thread at any time, point-to-point messages beside collectives. But
// collectives of one group are called one after the other, in the same order on all members.
//
// Errors: Error(kUnavailable) that names the peer or the group. Whatever fails in a collective, or with a peer that
// died, leaves the communicator unusable: abort() it and build a new one on the survivors. A message that timed out
// makes later messages with that peer fail, but with nobody else.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "graph/graph.h"
#include "runtime/store.h"

namespace motley {

struct Rendezvous {
  std::shared_ptr<Store> store;
  int rank = 0;
  int size = 1;
  std::string address;             // IP address or host name that this rank listens on; its peers must reach it
  std::string interface;           // or a network interface ("eth0") whose address is taken; both empty: 127.0.0.1
  std::vector<std::string> names;  // of all ranks, for messages ("big/0"); empty: only numbers are told
  Seconds timeout{30};             // to find and connect all ranks
};
// "rank 1 (big/0)".
std::string rank_name(const Rendezvous& rendezvous, int rank);

using RankGroup = std::int32_t;            // what create_group returned
inline constexpr RankGroup kAllRanks = 0;  // always there
using NativeEvent = void*;                 // a cudaEvent_t; always nullptr for Gloo

// A message on its way. Its buffer must live until wait() returned or threw. Destroying it unwaited gives the message
// up.
class Pending {
 public:
  virtual ~Pending() = default;
  // Returns when the buffer may be used again (send) or holds the data (receive). Called once.
  virtual void wait(Seconds timeout) = 0;
  // NCCL: makes `stream` (a cudaStream_t) wait on the device for the message, without blocking the caller. Gloo: there
  // is no stream to order; does nothing.
  virtual void order_before(void* /*stream*/) {}
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name_of(int rank) const = 0;  // as rank_name, for messages

  // A send matches the receive of its peer with the same tag (>= 0) and size. Both may be posted in any order; several
  // with one tag between two ranks match in order. Zero bytes are a message as well. `ready` is recorded when the
  // buffer holds its data (send) or may be overwritten (receive); nullptr: at once.
  virtual std::unique_ptr<Pending> send(const void* data, Bytes bytes, int peer, std::int32_t tag,
                                        NativeEvent ready = nullptr) = 0;
  virtual std::unique_ptr<Pending> receive(void* data, Bytes bytes, int peer, std::int32_t tag,
                                           NativeEvent ready = nullptr) = 0;

  // Called by all members (ascending ranks, this one among them) and nobody else, blocking until all have called. All
  // ranks create the groups that they share in the same order. The same members may form several groups.
  virtual RankGroup create_group(const std::vector<int>& members, Seconds timeout) = 0;
  virtual const std::vector<int>& members(RankGroup group) const = 0;

  // Collectives block the caller until its own buffers are done.
  // Sum over the members, in place; integers wrap, bool is "or", 16-bit floats are rounded after each addition.
  virtual void all_reduce(RankGroup group, void* data, std::int64_t count, DType dtype, Seconds timeout,
                          NativeEvent ready = nullptr) = 0;
  // `all` gets members * each bytes, in the order of members; `mine` is `each` bytes and may lie in its place in `all`.
  virtual void all_gather(RankGroup group, const void* mine, void* all, Bytes each, Seconds timeout,
                          NativeEvent ready = nullptr) = 0;
  // From `root` (a rank, not a place in the group) to all members.
  virtual void broadcast(RankGroup group, void* data, Bytes bytes, int root, Seconds timeout,
                         NativeEvent ready = nullptr) = 0;
  virtual void barrier(RankGroup group, Seconds timeout) = 0;

  // Wakes everybody who waits here, with an Error that carries `reason`, and closes the connections, so that the peers
  // fail as well and, where they can still reach the store, tell the same reason. Later calls fail. Harmless when
  // repeated: the first reason stays.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace motley
