#include "runtime/emulated_communicator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "runtime/emulated_port.h"

namespace motley {
namespace {

struct PortOptions {  // as it is exchanged
  double bandwidth = 0;
  double latency = 0;
};

// An inner message of its own beside the data each: what the sender knows, and what the receiver knows.
enum InnerTag { kData = 0, kDeparture = 1, kArrival = 2, kInnerTags = 4 };
std::int32_t inner_tag(std::int32_t tag, InnerTag part) { return tag * kInnerTags + part; }

class EmulatedCommunicator : public Communicator {
 public:
  EmulatedCommunicator(std::unique_ptr<Communicator> inner, const EmulationOptions& options,
                       std::shared_ptr<EmulationClock> clock, Seconds timeout)
      : inner_(std::move(inner)), clock_(std::move(clock)), ports_(inner_->size()) {
    const PortOptions mine{options.bandwidth.value, options.latency.value};
    inner_->all_gather(kAllRanks, &mine, ports_.data(), Bytes(sizeof(PortOptions)), timeout);
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name_of(int rank) const override { return inner_->name_of(rank); }
  RankGroup create_group(const std::vector<int>& members, Seconds timeout) override {
    return inner_->create_group(members, timeout);
  }
  const std::vector<int>& members(RankGroup group) const override { return inner_->members(group); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

  std::unique_ptr<Pending> send(const void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent ready) override;
  std::unique_ptr<Pending> receive(void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent ready) override;

  void all_reduce(RankGroup group, void* data, std::int64_t count, DType dtype, Seconds timeout,
                  NativeEvent ready) override {
    const double n = static_cast<double>(members(group).size());
    const double bytes = static_cast<double>(count * size_of(dtype).value);
    collective(group, 2 * (n - 1) / n * bytes, 2 * (n - 1), timeout,
               [&] { inner_->all_reduce(group, data, count, dtype, timeout, ready); });
  }
  void all_gather(RankGroup group, const void* mine, void* all, Bytes each, Seconds timeout,
                  NativeEvent ready) override {
    const double n = static_cast<double>(members(group).size());
    collective(group, (n - 1) * static_cast<double>(each.value), n - 1, timeout,
               [&] { inner_->all_gather(group, mine, all, each, timeout, ready); });
  }
  void broadcast(RankGroup group, void* data, Bytes bytes, int root, Seconds timeout, NativeEvent ready) override {
    collective(group, static_cast<double>(bytes.value), rounds(group), timeout,
               [&] { inner_->broadcast(group, data, bytes, root, timeout, ready); });
  }
  void barrier(RankGroup group, Seconds timeout) override {
    collective(group, 0, rounds(group), timeout, [] {});  // the exchange of times is a barrier
  }

  // Time to move `bytes` through the port of `rank`, zero for an unshaped one.
  Seconds transmission(double bytes, int rank) const {
    return Seconds(ports_[rank].bandwidth > 0 ? bytes / ports_[rank].bandwidth : 0);
  }
  Seconds transmission(double bytes, int from, int to) const {
    return std::max(transmission(bytes, from), transmission(bytes, to));
  }
  Seconds latency(int from, int to) const { return Seconds(ports_[from].latency + ports_[to].latency); }
  EmulationClock& clock() { return *clock_; }
  EmulatedPort& egress() { return egress_; }
  EmulatedPort& ingress() { return ingress_; }

 private:
  double rounds(RankGroup group) const { return std::bit_width(members(group).size() - 1); }  // ceil(log2 n)

  std::vector<double> exchange(RankGroup group, Seconds mine, Seconds timeout) {
    std::vector<double> all(members(group).size());
    inner_->all_gather(group, &mine.value, all.data(), Bytes(sizeof(double)), timeout);
    return all;
  }

  // `bytes` that each member sends and receives, in `steps` messages one after the other.
  template <class Body>
  void collective(RankGroup group, double bytes, double steps, Seconds timeout, Body body) {
    const std::vector<int>& ranks = members(group);
    if (ranks.size() == 1) return body();
    const std::vector<double> entries = exchange(group, clock_->now(), timeout);
    const Seconds begin(*std::max_element(entries.begin(), entries.end()));
    Seconds slowest, farthest;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      slowest = std::max(slowest, transmission(bytes, ranks[i]));
      farthest = std::max(farthest, latency(ranks[i], ranks[(i + 1) % ranks.size()]));
    }
    // Other messages may hold a member's port; the ring is as late as its latest member.
    const Seconds own = transmission(bytes, rank());
    const Seconds free = std::max(egress_.book(begin, own).end, ingress_.book(begin, own).end);
    body();
    const std::vector<double> delays = exchange(group, free - begin - own, timeout);
    const Seconds delay(*std::max_element(delays.begin(), delays.end()));
    clock_->sleep_until(begin + slowest + delay + farthest * steps);
  }

  const std::unique_ptr<Communicator> inner_;
  const std::shared_ptr<EmulationClock> clock_;
  std::vector<PortOptions> ports_;  // by rank
  EmulatedPort egress_, ingress_;
};

struct Departure {  // the egress as it was booked by the sender
  double start = 0;
  double end = 0;
};

// The inner messages of one.
struct Messages {
  std::unique_ptr<Pending> arrival, departure, data;

  void wait(Seconds timeout) const {
    for (const auto* message : {&arrival, &departure, &data}) (*message)->wait(timeout);
  }
};

class EmulatedSend : public Pending {
 public:
  EmulatedSend(EmulatedCommunicator& owner, Communicator& inner, const void* data, Bytes bytes, int peer,
               std::int32_t tag, NativeEvent ready)
      : owner_(owner),
        through_(owner.transmission(static_cast<double>(bytes.value), owner.rank(), peer)),
        out_(owner.transmission(static_cast<double>(bytes.value), owner.rank())),
        booking_(owner.egress().book(owner.clock().now(), out_)),
        departure_{booking_.start.value, booking_.end.value},
        messages_{inner.receive(&posted_, Bytes(sizeof(posted_)), peer, inner_tag(tag, kArrival)),
                  inner.send(&departure_, Bytes(sizeof(departure_)), peer, inner_tag(tag, kDeparture)),
                  inner.send(data, bytes, peer, inner_tag(tag, kData), ready)} {}

  void wait(Seconds timeout) override {
    messages_.wait(timeout);
    if (posted_ > booking_.start) {  // nobody was there to receive: it could not leave yet
      owner_.egress().release(booking_);
      booking_ = owner_.egress().book(posted_, out_);
    }
    owner_.clock().sleep_until(std::max(booking_.end, booking_.start + through_));
  }

 private:
  EmulatedCommunicator& owner_;
  const Seconds through_, out_;
  EmulatedPort::Booking booking_;
  const Departure departure_;
  Seconds posted_;  // when the receive was
  const Messages messages_;
};

class EmulatedReceive : public Pending {
 public:
  EmulatedReceive(EmulatedCommunicator& owner, Communicator& inner, void* data, Bytes bytes, int peer, std::int32_t tag,
                  NativeEvent ready)
      : owner_(owner),
        latency_(owner.latency(peer, owner.rank())),
        in_(owner.transmission(static_cast<double>(bytes.value), owner.rank())),
        posted_(owner.clock().now()),
        messages_{inner.send(&posted_, Bytes(sizeof(posted_)), peer, inner_tag(tag, kArrival)),
                  inner.receive(&departure_, Bytes(sizeof(departure_)), peer, inner_tag(tag, kDeparture)),
                  inner.receive(data, bytes, peer, inner_tag(tag, kData), ready)} {}

  void wait(Seconds timeout) override {
    messages_.wait(timeout);
    const Seconds late(std::max(0.0, posted_.value - departure_.start));
    const Seconds first = Seconds(departure_.start) + late + latency_;
    const Seconds last = Seconds(departure_.end) + late + latency_;
    owner_.clock().sleep_until(std::max(last, owner_.ingress().book(first, in_).end));
  }

 private:
  EmulatedCommunicator& owner_;
  const Seconds latency_, in_;
  const Seconds posted_;
  Departure departure_;
  const Messages messages_;
};

void check_tag(std::int32_t tag) {
  MOTLEY_CHECK(tag < std::numeric_limits<std::int32_t>::max() / kInnerTags, "tag " + std::to_string(tag));
}

std::unique_ptr<Pending> EmulatedCommunicator::send(const void* data, Bytes bytes, int peer, std::int32_t tag,
                                                    NativeEvent ready) {
  check_tag(tag);
  return std::make_unique<EmulatedSend>(*this, *inner_, data, bytes, peer, tag, ready);
}

std::unique_ptr<Pending> EmulatedCommunicator::receive(void* data, Bytes bytes, int peer, std::int32_t tag,
                                                       NativeEvent ready) {
  check_tag(tag);
  return std::make_unique<EmulatedReceive>(*this, *inner_, data, bytes, peer, tag, ready);
}

}  // namespace

std::unique_ptr<Communicator> make_emulated_communicator(std::unique_ptr<Communicator> inner,
                                                         const EmulationOptions& options,
                                                         std::shared_ptr<EmulationClock> clock, Seconds timeout) {
  return std::make_unique<EmulatedCommunicator>(std::move(inner), options, std::move(clock), timeout);
}

}  // namespace motley
