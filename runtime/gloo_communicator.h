#pragma once

// The Communicator over TCP between host memories. One event thread; connections of their own for each pair of ranks
// and for each group, so that messages and collectives do not wait for each other and a pair that fails fails alone.

#include <memory>

#include "runtime/communicator.h"

namespace motley {

// Blocks until all ranks have found each other. Throws Error(kInvalidInput) for an address or interface that this host
// does not have, Error(kUnavailable) naming the rank that did not come or cannot be reached.
std::unique_ptr<Communicator> make_gloo_communicator(const Rendezvous& rendezvous);

}  // namespace motley
