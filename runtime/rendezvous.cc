#include "runtime/communicator.h"

namespace motley {

std::string rank_name(const Rendezvous& rendezvous, int rank) {
  const std::string number = "rank " + std::to_string(rank);
  const auto place = static_cast<std::size_t>(rank);
  return place < rendezvous.names.size() ? number + " (" + rendezvous.names[place] + ")" : number;
}

}  // namespace motley
