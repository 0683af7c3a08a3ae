#pragma once

// Connections between some ranks of a job: Gloo's context, which here connects through a Store and names who is
// missing.

#include <gloo/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/communicator.h"

namespace motley {

class GlooMesh : public gloo::Context {
 public:
  // `ranks` are ascending and hold rendezvous.rank. `key` tells the meshes of one store apart; it is the same for all
  // members. Blocks until all are connected; throws Error(kUnavailable) naming the rank that is not.
  GlooMesh(const std::shared_ptr<gloo::transport::Device>& device, const Rendezvous& rendezvous, std::vector<int> ranks,
           const std::string& key, Seconds timeout);

  const std::vector<int>& ranks() const { return ranks_; }
  int place_of(int rank) const;  // in `ranks`; -1 for a rank that is not a member

  // Makes everything that waits on these connections fail, here and at the peers.
  void poison();
  // Ranks whose connection has failed. Only to be asked after a failure: it leaves the connections unusable.
  std::vector<int> lost();

 private:
  const std::vector<int> ranks_;
};

// The address to listen on, from Rendezvous::address or ::interface. Throws Error(kInvalidInput) when this host has not
// got it.
std::shared_ptr<gloo::transport::Device> make_gloo_device(const Rendezvous& rendezvous);

std::chrono::milliseconds gloo_milliseconds(Seconds time);  // at least 1

}  // namespace motley
