#include "runtime/link_probe.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include "base/error.h"

namespace motley {
namespace {

constexpr std::int32_t kTag = (1 << 29) - 3;  // beyond any program's
constexpr std::int64_t kGrowth = 4;           // from size to size
constexpr Bytes kShort{64 << 10};
constexpr Bytes kSignal{0};  // a message that only says "now"
constexpr int kSignalsPerRepeat = 4;
constexpr std::size_t kWords = 8, kMessageWords = 4, kMostSizes = 32;  // of a result on the wire

Seconds median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return Seconds(*middle);
}
Seconds least(const std::vector<double>& values) { return Seconds(*std::min_element(values.begin(), values.end())); }

Seconds spread_around(Seconds center, std::vector<double> values) {
  for (double& value : values) value = std::abs(value - center.value);
  return median(std::move(values));
}

// Of this process.
Seconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return Seconds(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

// Exchanges of a payload for a signal, and what they took of this process's processor time.
struct PayloadWork {
  Seconds time;
  double exchanges = 0;
  double bytes = 0;
};

// The lower rank of a pair leads: it holds the clock, the higher one answers.
class Probe {
 public:
  Probe(Communicator& communicator, Communicator& control, void* scratch, const LinkProbeOptions& options)
      : communicator_(communicator),
        control_(control),
        out_(static_cast<char*>(scratch)),
        in_(out_ + options.largest.value),
        options_(options),
        links_(communicator.size(), std::vector<ProbedLink>(communicator.size())) {}

  ProbedNetwork run() {
    const int size = communicator_.size();
    const int pairs = std::max(1, size * (size - 1) / 2);
    for (int low = 0; low < size; ++low) {
      for (int high = low + 1; high < size; ++high) {
        if (rank() == low) lead(high, options_.budget / pairs);
        if (rank() == high) answer(low);
        share(low, high);
      }
    }
    if (size >= 4) all_pairs();
    ProbedNetwork result;
    for (int from = 0; from < size; ++from) {
      for (int to = 0; to < size; ++to) {
        if (from != to) result.links.push_back(links_[from][to]);
      }
    }
    if (size == 1) return result;
    const Seconds signals = median(signal_work_);
    result.message_work = signals / 2;
    result.message_work_per_byte =
        std::max(Seconds(0), (payload_work_.time - payload_work_.exchanges * signals) / payload_work_.bytes);
    return result;
  }

 private:
  int rank() const { return communicator_.rank(); }
  Seconds now() const { return options_.clock->now(); }

  // Sends to and receives from the peer; returns when both are done.
  void swap(int peer, Bytes out, Bytes in) {
    const auto received = communicator_.receive(in_, in, peer, kTag);
    communicator_.send(out_, out, peer, kTag)->wait(options_.timeout);
    received->wait(options_.timeout);
  }
  void put(int peer, Bytes bytes) { communicator_.send(out_, bytes, peer, kTag)->wait(options_.timeout); }
  void get(int peer, Bytes bytes) { communicator_.receive(in_, bytes, peer, kTag)->wait(options_.timeout); }

  // Times of `repeats` round trips of which one way is a signal. Its share is taken off.
  std::vector<double> times(int peer, Bytes out, Bytes in, int repeats) {
    std::vector<double> result;
    std::vector<double> work;
    swap(peer, out, in);
    for (int i = 0; i < repeats; ++i) {
      const Seconds start = now(), used = processor_time();
      swap(peer, out, in);
      result.push_back((now() - start - signal_).value);
      work.push_back((processor_time() - used).value);
    }
    count(out + in, work);
    return result;
  }
  void echo(int peer, Bytes out, Bytes in, int repeats) {
    std::vector<double> work;
    for (int i = 0; i <= repeats; ++i) {
      const Seconds used = processor_time();
      get(peer, in);
      put(peer, out);
      if (i > 0) work.push_back((processor_time() - used).value);
    }
    count(out + in, work);
  }
  // Medians, since a process that shares its core is now and then put aside with a lock that its others then spin on.
  void count(Bytes both_ways, const std::vector<double>& work) {
    if (both_ways == kSignal) {
      signal_work_.insert(signal_work_.end(), work.begin(), work.end());
      return;
    }
    payload_work_.time += median(work);
    ++payload_work_.exchanges;
    payload_work_.bytes += static_cast<double>(both_ways.value);
  }

  void note(ProbedLink& link, Bytes bytes, const std::vector<double>& values) {
    // No message is faster than an empty one.
    const Seconds floor = std::max(signal_, Seconds(1e-9));
    const Seconds time = std::max(median(values), floor);
    link.messages.push_back({bytes, time, spread_around(time, values), std::max(least(values), floor)});
  }

  // What the leader wants to do next with its peer.
  struct Batch {
    enum What : std::int64_t { kOneWayEach = 0, kBothWays = 1, kEnd = 2 };
    std::int64_t what = kEnd;
    std::int64_t bytes = 0;
    std::int64_t repeats = 0;
  };

  void announce(int peer, const Batch& batch) {
    control_.send(&batch, Bytes(sizeof(batch)), peer, kTag - 1)->wait(options_.timeout);
  }
  Batch next_batch(int peer) {
    Batch batch;
    control_.receive(&batch, Bytes(sizeof(batch)), peer, kTag - 1)->wait(options_.timeout + options_.budget);
    return batch;
  }

  void lead(int peer, Seconds budget) {
    ProbedLink& there = links_[rank()][peer];
    ProbedLink& back = links_[peer][rank()];
    const Seconds start = now();
    signal_ = Seconds(0);
    signal_ = least(times(peer, kSignal, kSignal, kSignalsPerRepeat * options_.repeats)) / 2;
    // As many repeats as are wanted, or fewer when there and back take more than a fair part of the budget.
    Seconds round = (now() - start) / (kSignalsPerRepeat * options_.repeats + 1);
    for (Bytes size = options_.smallest; size <= options_.largest; size = size * kGrowth) {
      if (there.messages.size() >= 2 && now() - start + 6.0 * round > budget) break;
      const double affordable = budget / round / 12;
      const int wanted = size > kShort ? options_.repeats : 4 * options_.repeats;
      const int repeats = static_cast<int>(std::clamp<double>(affordable, 1, wanted));
      announce(peer, {Batch::kOneWayEach, size.value, repeats});
      note(there, size, times(peer, size, kSignal, repeats));
      note(back, size, times(peer, kSignal, size, repeats));
      const Seconds payload = there.messages.back().least + back.messages.back().least - 2.0 * signal_;
      round = 2.0 * signal_ + static_cast<double>(kGrowth) * payload;
    }
    fit_link(there);
    fit_link(back);
    both_ways(peer, there.messages.back().bytes);
    announce(peer, {});
  }

  void answer(int peer) {
    echo(peer, kSignal, kSignal, kSignalsPerRepeat * options_.repeats);
    for (Batch batch = next_batch(peer); batch.what != Batch::kEnd; batch = next_batch(peer)) {
      const Bytes size(batch.bytes);
      const int repeats = static_cast<int>(batch.repeats);
      if (batch.what == Batch::kOneWayEach) {
        echo(peer, kSignal, size, repeats);
        echo(peer, size, kSignal, repeats);
      }
      for (int i = 0; batch.what == Batch::kBothWays && i <= repeats; ++i) {
        get(peer, kSignal);
        swap(peer, size, size);
        put(peer, kSignal);
      }
    }
  }

  void both_ways(int peer, Bytes bytes) {
    const int repeats = options_.repeats;
    announce(peer, {Batch::kBothWays, bytes.value, repeats});
    std::vector<double> values;
    for (int i = 0; i <= repeats; ++i) {
      put(peer, kSignal);
      const Seconds start = now();
      swap(peer, bytes, bytes);
      get(peer, kSignal);
      // The peer starts when our signal is there, and its own signal comes back when it has everything.
      const Seconds took = now() - start;
      if (i > 0) values.push_back(std::max(took - 2 * signal_, 0.1 * took).value);
    }
    for (ProbedLink* link : {&links_[rank()][peer], &links_[peer][rank()]}) {
      link->bandwidth_both_ways = BytesPerSecond(static_cast<double>(bytes.value) / rest(median(values), *link));
    }
  }

  // Seconds of `time` beyond the latency, and at least a tenth of it where the latency's fit is off.
  static double rest(Seconds time, const ProbedLink& link) {
    return std::max(time.value - link.latency.value, 0.1 * time.value);
  }

  // Round by round of a tournament (the circle method), so that the pairs of a round share no rank; all send for about
  // the same time, in one direction and then in the other.
  void all_pairs() {
    const int size = communicator_.size();
    const int seats = size + size % 2;
    double seconds = 1e9;
    for (int low = 0; low < size; ++low) {
      for (int high = low + 1; high < size; ++high) {
        seconds = std::min(
            {seconds, links_[low][high].messages.back().time.value, links_[high][low].messages.back().time.value});
      }
    }
    for (int round = 0; round < seats - 1; ++round) {
      const int peer = opponent(rank(), round, seats);
      if (peer < size) one_round(peer, seconds);
      if (peer >= size) one_round(-1, seconds);
    }
    for (int low = 0; low < size; ++low) {
      for (int high = low + 1; high < size; ++high) share(low, high);
    }
  }

  static int opponent(int rank, int round, int seats) {
    const int circle = seats - 1;
    if (rank == circle) return (round * (seats / 2)) % circle;  // the seat that meets itself
    const int other = ((round - rank) % circle + circle) % circle;
    return other == rank ? circle : other;
  }

  void one_round(int peer, double seconds) {
    for (const bool upwards : {true, false}) {
      std::vector<double> values;
      Bytes bytes;
      if (peer >= 0) {
        const ProbedLink& link = upwards == (rank() < peer) ? links_[rank()][peer] : links_[peer][rank()];
        const double fitting = (seconds - link.latency.value) * link.bandwidth.value;
        bytes =
            Bytes(std::clamp(static_cast<std::int64_t>(fitting), std::int64_t{1}, link.messages.back().bytes.value));
      }
      for (int i = 0; i <= options_.repeats; ++i) {
        control_.barrier(kAllRanks, options_.timeout);
        if (peer < 0) continue;
        if (rank() > peer) {
          get(peer, upwards ? bytes : kSignal);
          put(peer, upwards ? kSignal : bytes);
          continue;
        }
        const Seconds start = now();
        swap(peer, upwards ? bytes : kSignal, upwards ? kSignal : bytes);
        ProbedLink& link = upwards ? links_[rank()][peer] : links_[peer][rank()];
        if (i > 0) values.push_back((now() - start).value - link.latency.value);
      }
      if (peer < 0 || rank() > peer) continue;
      ProbedLink& link = upwards ? links_[rank()][peer] : links_[peer][rank()];
      link.bandwidth_all_pairs = BytesPerSecond(static_cast<double>(bytes.value) / rest(median(values), link));
    }
  }

  // Tells everybody what the leader of a pair found.
  void share(int low, int high) {
    for (ProbedLink* link : {&links_[low][high], &links_[high][low]}) {
      std::vector<double> wire(kWords + kMessageWords * kMostSizes);
      if (rank() == low) {
        const auto sizes = static_cast<double>(link->messages.size());
        wire = {sizes,
                link->latency.value,
                link->bandwidth.value,
                link->fit_error,
                link->bandwidth_both_ways.value,
                link->bandwidth_all_pairs.value};
        wire.resize(kWords);
        for (const MessageTime& message : link->messages) {
          wire.insert(wire.end(), {static_cast<double>(message.bytes.value), message.time.value, message.spread.value,
                                   message.least.value});
        }
        wire.resize(kWords + kMessageWords * kMostSizes);
      }
      control_.broadcast(kAllRanks, wire.data(), Bytes(static_cast<std::int64_t>(wire.size() * sizeof(double))), low,
                         options_.timeout + options_.budget);
      *link = {.from = link == &links_[low][high] ? low : high,
               .to = link == &links_[low][high] ? high : low,
               .latency = Seconds(wire[1]),
               .bandwidth = BytesPerSecond(wire[2]),
               .fit_error = wire[3],
               .bandwidth_both_ways = BytesPerSecond(wire[4]),
               .bandwidth_all_pairs = BytesPerSecond(wire[5])};
      for (std::size_t i = 0; i < static_cast<std::size_t>(wire[0]); ++i) {
        const double* message = wire.data() + kWords + kMessageWords * i;
        link->messages.push_back({Bytes(static_cast<std::int64_t>(message[0])), Seconds(message[1]),
                                  Seconds(message[2]), Seconds(message[3])});
      }
    }
  }

  Communicator& communicator_;
  Communicator& control_;
  char* const out_;
  char* const in_;
  const LinkProbeOptions options_;
  std::vector<std::vector<ProbedLink>> links_;  // from, to
  Seconds signal_;                              // what a signal takes one way, for the pair in hand
  std::vector<double> signal_work_;             // seconds of processor time per exchange of signals
  PayloadWork payload_work_;                    // the sum of the medians of each size and peer
};

}  // namespace

ProbedNetwork probe_links(Communicator& communicator, Communicator& control, void* scratch,
                          const LinkProbeOptions& options) {
  MOTLEY_CHECK(options.smallest > Bytes(0) && options.smallest * kGrowth <= options.largest && options.repeats > 0,
               "a link probe needs two sizes and a repeat");
  return Probe(communicator, control, scratch, options).run();
}

void fit_link(ProbedLink& link) {
  const MessageTime& shortest = link.messages.front();
  const MessageTime& largest = link.messages.back();
  const double slope =
      (largest.time - shortest.least).value / static_cast<double>((largest.bytes - shortest.bytes).value);
  // Where noise hides the slope, the whole time of the largest message is a bound.
  const double mean = largest.time.value / static_cast<double>(largest.bytes.value);
  const double inverse = slope > 0.1 * mean ? slope : mean;
  link.bandwidth = BytesPerSecond(1 / inverse);
  link.latency = std::max(Seconds(0), shortest.least - Seconds(static_cast<double>(shortest.bytes.value) * inverse));
  double squares = 0;
  for (const MessageTime& message : link.messages) {
    const double fitted = link.latency.value + static_cast<double>(message.bytes.value) * inverse;
    squares += std::pow(fitted / message.time.value - 1, 2);
  }
  link.fit_error = std::sqrt(squares / static_cast<double>(link.messages.size()));
}

}  // namespace motley
