#include "runtime/gloo_mesh.h"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"

namespace motley {
namespace {

constexpr std::uint64_t kPoisonSlot = std::uint64_t{1} << 62;  // no tag and no collective uses it

using Clock = std::chrono::steady_clock;

Seconds left_of(Seconds timeout, Clock::time_point start) {
  return Seconds(std::max(0.0, timeout.value - std::chrono::duration<double>(Clock::now() - start).count()));
}

// Each member publishes the addresses at which the others reach it, all of one length, in the order of members.
std::string address_key(const std::string& key, int place) { return "mesh/" + key + "/" + std::to_string(place); }

[[noreturn]] void did_not_come(const Rendezvous& rendezvous, const std::string& peer, Seconds timeout) {
  throw Error(ErrorKind::kUnavailable, rank_name(rendezvous, rendezvous.rank) + " waited " + to_string(timeout) +
                                           " for " + peer + ", which did not come: see what became of its process");
}

[[noreturn]] void cannot_connect(const Rendezvous& rendezvous, const std::string& peer, const std::exception& failure) {
  throw Error(ErrorKind::kUnavailable,
              rank_name(rendezvous, rendezvous.rank) + " cannot connect to " + peer +
                  ": check that its address is one that this node reaches, and the firewall between them (" +
                  failure.what() + ")");
}

}  // namespace

GlooMesh::GlooMesh(const std::shared_ptr<gloo::transport::Device>& device, const Rendezvous& rendezvous,
                   std::vector<int> ranks, const std::string& key, Seconds timeout)
    : gloo::Context(static_cast<int>(std::find(ranks.begin(), ranks.end(), rendezvous.rank) - ranks.begin()),
                    static_cast<int>(ranks.size())),
      ranks_(std::move(ranks)) {
  MOTLEY_CHECK(rank < size, "a mesh without this rank");
  const auto start = Clock::now();
  device_ = device;
  transportContext_ = device->createContext(rank, size);
  // Gloo waits for a connection five times as long as it is told to.
  transportContext_->setTimeout(gloo_milliseconds(timeout / 5));

  std::string addresses;
  std::size_t address_bytes = 0;
  for (int place = 0; place < size; ++place) {
    if (place == rank) continue;
    const std::vector<char> address = transportContext_->createPair(place)->address().bytes();
    address_bytes = address.size();
    addresses.append(address.begin(), address.end());
  }
  rendezvous.store->set(address_key(key, rank), addresses);

  for (int place = 0; place < size; ++place) {
    if (place == rank) continue;
    const std::string peer = rank_name(rendezvous, ranks_[place]);
    const auto theirs = rendezvous.store->get(address_key(key, place), left_of(timeout, start));
    if (!theirs) did_not_come(rendezvous, peer, timeout);
    MOTLEY_CHECK(theirs->size() == address_bytes * (size - 1), "addresses of " + peer);
    const std::size_t begin = address_bytes * (rank < place ? rank : rank - 1);
    try {
      getPair(place)->connect({theirs->data() + begin, theirs->data() + begin + address_bytes});
    } catch (const std::exception& failure) {
      cannot_connect(rendezvous, peer, failure);
    }
  }
}

int GlooMesh::place_of(int wanted) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), wanted);
  return found != ranks_.end() && *found == wanted ? static_cast<int>(found - ranks_.begin()) : -1;
}

void GlooMesh::poison() {
  // A wait that times out is Gloo's only public way to fail all operations of a context.
  char nothing = 0;
  for (int place = 0; place < size; ++place) {
    if (place == rank) continue;
    try {
      const auto buffer = createUnboundBuffer(&nothing, 1);
      buffer->recv(place, kPoisonSlot);
      buffer->waitRecv(std::chrono::milliseconds(1));
    } catch (const std::exception&) {
    }
  }
}

std::vector<int> GlooMesh::lost() {
  std::vector<int> result;
  char nothing = 0;
  for (int place = 0; place < size; ++place) {
    if (place == rank) continue;
    try {
      createUnboundBuffer(&nothing, 1)->send(place, kPoisonSlot);
    } catch (const std::exception&) {
      result.push_back(ranks_[place]);
    }
  }
  return result;
}

std::shared_ptr<gloo::transport::Device> make_gloo_device(const Rendezvous& rendezvous) {
  gloo::transport::tcp::attr attributes;
  if (!rendezvous.address.empty()) {
    attributes.hostname = rendezvous.address;
  } else if (!rendezvous.interface.empty()) {
    attributes.iface = rendezvous.interface;
  } else {
    attributes.hostname = "127.0.0.1";
  }
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& failure) {
    throw Error(ErrorKind::kInvalidInput,
                rank_name(rendezvous, rendezvous.rank) + " cannot listen on " +
                    (attributes.iface.empty() ? "address " + attributes.hostname : "interface " + attributes.iface) +
                    ": give one that `ip addr` shows on its node (" + failure.what() + ")");
  }
}

std::chrono::milliseconds gloo_milliseconds(Seconds time) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::clamp(time.value * 1e3, 1.0, 1e11))));
}

}  // namespace motley
