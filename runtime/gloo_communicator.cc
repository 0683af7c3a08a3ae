#include "runtime/gloo_communicator.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "runtime/gloo_mesh.h"
#include "runtime/gloo_sum.h"

namespace motley {
namespace {

using gloo::transport::UnboundBuffer;
using Clock = std::chrono::steady_clock;

constexpr const char* kAbortKey = "abort";
// Who closes the connections tells why in the store first; a process that died tells nothing.
constexpr Seconds kGraceForReason{0.2};

Seconds since(Clock::time_point start) { return Seconds(std::chrono::duration<double>(Clock::now() - start).count()); }

class GlooCommunicator : public Communicator {
 public:
  explicit GlooCommunicator(const Rendezvous& rendezvous)
      : rendezvous_(rendezvous), device_(make_gloo_device(rendezvous)), pairs_(rendezvous.size) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const auto [low, high] = std::minmax({peer, rank()});
      const std::string key = "pair-" + std::to_string(low) + "-" + std::to_string(high);
      pairs_[peer] =
          std::make_unique<GlooMesh>(device_, rendezvous_, std::vector<int>{low, high}, key, rendezvous_.timeout);
    }
    std::vector<int> all(rendezvous.size);
    std::iota(all.begin(), all.end(), 0);
    create_group(all, rendezvous.timeout);
  }

  int rank() const override { return rendezvous_.rank; }
  int size() const override { return rendezvous_.size; }
  std::string name_of(int rank) const override { return rank_name(rendezvous_, rank); }

  std::unique_ptr<Pending> send(const void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent) override;
  std::unique_ptr<Pending> receive(void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent) override;

  RankGroup create_group(const std::vector<int>& members, Seconds timeout) override {
    std::string key;
    for (const int member : members) key += std::to_string(member) + "-";
    {
      std::lock_guard lock(mutex_);
      key = "group-" + key + std::to_string(created_[key]++);
    }
    auto mesh = std::make_shared<GlooMesh>(device_, rendezvous_, members, key, timeout);
    std::lock_guard lock(mutex_);
    groups_.push_back(std::move(mesh));
    return static_cast<RankGroup>(groups_.size() - 1);
  }

  const std::vector<int>& members(RankGroup group) const override { return mesh(group)->ranks(); }

  void all_reduce(RankGroup group, void* data, std::int64_t count, DType dtype, Seconds timeout, NativeEvent) override {
    const GlooSum sum = gloo_sum(dtype);
    run(group, "all-reduce", timeout, count > 0, [&](const std::shared_ptr<GlooMesh>& mesh) {
      gloo::AllreduceOptions options(mesh);
      options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      options.setReduceFunction(sum.function);
      const auto elements = static_cast<std::size_t>(count);
      switch (sum.element_bytes) {  // only the size of the type matters to Gloo
        case 1:
          options.setOutput(static_cast<std::uint8_t*>(data), elements);
          break;
        case 2:
          options.setOutput(static_cast<std::uint16_t*>(data), elements);
          break;
        case 4:
          options.setOutput(static_cast<std::uint32_t*>(data), elements);
          break;
        default:
          options.setOutput(static_cast<std::uint64_t*>(data), elements);
      }
      options.setTimeout(gloo_milliseconds(timeout));
      gloo::allreduce(options);
    });
  }

  void all_gather(RankGroup group, const void* mine, void* all, Bytes each, Seconds timeout, NativeEvent) override {
    const auto bytes = static_cast<std::size_t>(each.value);
    auto* place = static_cast<char*>(all) + bytes * mesh(group)->rank;
    if (mine != place && bytes > 0) std::memcpy(place, mine, bytes);
    run(group, "all-gather", timeout, bytes > 0, [&](const std::shared_ptr<GlooMesh>& mesh) {
      gloo::AllgatherOptions options(mesh);
      options.setOutput(static_cast<char*>(all), bytes * mesh->size);
      options.setTimeout(gloo_milliseconds(timeout));
      gloo::allgather(options);
    });
  }

  void broadcast(RankGroup group, void* data, Bytes bytes, int root, Seconds timeout, NativeEvent) override {
    const int place = mesh(group)->place_of(root);
    MOTLEY_CHECK(place >= 0, "a broadcast from " + name_of(root) + ", which is not in " + describe(*mesh(group)));
    run(group, "broadcast", timeout, bytes.value > 0, [&](const std::shared_ptr<GlooMesh>& mesh) {
      gloo::BroadcastOptions options(mesh);
      options.setOutput(static_cast<char*>(data), static_cast<std::size_t>(bytes.value));
      options.setRoot(place);
      options.setTimeout(gloo_milliseconds(timeout));
      gloo::broadcast(options);
    });
  }

  void barrier(RankGroup group, Seconds timeout) override {
    run(group, "barrier", timeout, true, [&](const std::shared_ptr<GlooMesh>& mesh) {
      gloo::BarrierOptions options(mesh);
      options.setTimeout(gloo_milliseconds(timeout));
      gloo::barrier(options);
    });
  }

  void abort(const std::string& reason) override {
    std::vector<std::shared_ptr<GlooMesh>> groups;
    {
      std::lock_guard lock(mutex_);
      if (!abort_reason_.empty()) return;
      abort_reason_ = reason.empty() ? "aborted" : reason;
      groups = groups_;
    }
    try {
      auto& store = *rendezvous_.store;
      if (!store.get(kAbortKey, Seconds(0))) store.set(kAbortKey, abort_reason_);
    } catch (const std::exception&) {  // the store may have died with whatever is the reason
    }
    for (const auto& pair : pairs_) {
      if (pair) pair->poison();
    }
    for (const auto& group : groups) group->poison();
  }

  // What to tell of an operation that failed. `timeout` is what it was given.
  Error failure_with(int peer, const std::string& what, Clock::time_point start, Seconds timeout,
                     const std::exception& cause) {
    const bool timed_out = since(start) >= timeout;
    if (auto reason = abort_reason(timed_out ? Seconds(0) : kGraceForReason)) return told(*reason);
    if (timed_out) {
      return Error(ErrorKind::kUnavailable, name_of(rank()) + " waited " + to_string(timeout) + " while " + what + " " +
                                                name_of(peer) + ": it is stuck, or the link between them is");
    }
    return Error(ErrorKind::kUnavailable, name_of(rank()) + " lost " + name_of(peer) + " while " + what +
                                              " it: its process died or the network failed (" + cause.what() + ")");
  }

 private:
  using Mesh = std::shared_ptr<GlooMesh>;

  Mesh mesh(RankGroup group) const {
    std::lock_guard lock(mutex_);
    MOTLEY_CHECK(group >= 0 && static_cast<std::size_t>(group) < groups_.size(), "no group " + std::to_string(group));
    return groups_[group];
  }

  std::string describe(const GlooMesh& mesh) const {
    std::string text = "the group of";
    for (const int member : mesh.ranks()) text += (member == mesh.ranks().front() ? " " : ", ") + name_of(member);
    return text;
  }

  Error told(const std::string& reason) const { return Error(ErrorKind::kUnavailable, reason); }

  std::optional<std::string> abort_reason(Seconds grace) {
    {
      std::lock_guard lock(mutex_);
      if (!abort_reason_.empty()) return abort_reason_;
    }
    try {
      return rendezvous_.store->get(kAbortKey, grace);
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  // Runs a collective; a failure ends the communicator, here and on the other members.
  template <class Body>
  void run(RankGroup group, const char* what, Seconds timeout, bool has_data, Body body) {
    const Mesh mesh = this->mesh(group);
    if (!has_data || mesh->size == 1) return;
    const auto start = Clock::now();
    try {
      body(mesh);
      return;
    } catch (const std::exception& cause) {
      const Error error = collective_failure(*mesh, what, start, timeout, cause);
      abort(error.what());
      throw error;
    }
  }

  Error collective_failure(GlooMesh& mesh, const std::string& what, Clock::time_point start, Seconds timeout,
                           const std::exception& cause) {
    const bool timed_out = since(start) >= timeout;
    if (auto reason = abort_reason(timed_out ? Seconds(0) : kGraceForReason)) return told(*reason);
    const std::string where = what + " of " + describe(mesh);
    if (timed_out) {
      return Error(ErrorKind::kUnavailable,
                   name_of(rank()) + " waited " + to_string(timeout) + " in the " + where +
                       ": one of them is stuck or has not come, or a link between them is down");
    }
    std::string lost;
    for (const int member : mesh.lost()) lost += (lost.empty() ? "" : ", ") + name_of(member);
    return Error(ErrorKind::kUnavailable, name_of(rank()) + " lost " + lost + " in the " + where +
                                              ": its process died or the network failed (" + cause.what() + ")");
  }

  std::unique_ptr<Pending> post(void* data, Bytes bytes, int peer, std::int32_t tag, bool sends);

  const Rendezvous rendezvous_;
  const std::shared_ptr<gloo::transport::Device> device_;
  std::vector<std::unique_ptr<GlooMesh>> pairs_;  // by peer; fixed after construction
  mutable std::mutex mutex_;                      // guards what follows
  std::vector<Mesh> groups_;
  std::map<std::string, int> created_;  // groups so far, by their members
  std::string abort_reason_;
};

class GlooPending : public Pending {
 public:
  GlooPending(GlooCommunicator& owner, std::unique_ptr<UnboundBuffer> buffer, int peer, std::string what, bool sends)
      : owner_(owner), buffer_(std::move(buffer)), peer_(peer), what_(std::move(what)), sends_(sends) {}

  void wait(Seconds timeout) override {
    const auto start = Clock::now();
    try {
      const auto limit = gloo_milliseconds(timeout);
      sends_ ? buffer_->waitSend(limit) : buffer_->waitRecv(limit);
    } catch (const std::exception& cause) {
      throw owner_.failure_with(peer_, what_, start, timeout, cause);
    }
  }

 private:
  GlooCommunicator& owner_;
  const std::unique_ptr<UnboundBuffer> buffer_;
  const int peer_;
  const std::string what_;  // "sending 3.00 MiB (tag 7) to"
  const bool sends_;
};

std::unique_ptr<Pending> GlooCommunicator::post(void* data, Bytes bytes, int peer, std::int32_t tag, bool sends) {
  MOTLEY_CHECK(peer >= 0 && peer < size() && peer != rank(), "a message with rank " + std::to_string(peer));
  MOTLEY_CHECK(tag >= 0 && bytes.value >= 0, "a message with a negative tag or size");
  GlooMesh& pair = *pairs_[peer];
  const std::string what = (sends ? "sending " : "receiving ") + to_string(bytes) + " (tag " + std::to_string(tag) +
                           (sends ? ") to" : ") from");
  const auto start = Clock::now();
  try {
    auto buffer = pair.createUnboundBuffer(data, static_cast<std::size_t>(bytes.value));
    const auto slot = static_cast<std::uint64_t>(tag);
    sends ? buffer->send(1 - pair.rank, slot) : buffer->recv(1 - pair.rank, slot);
    return std::make_unique<GlooPending>(*this, std::move(buffer), peer, what, sends);
  } catch (const std::exception& cause) {
    throw failure_with(peer, what, start, rendezvous_.timeout, cause);
  }
}

std::unique_ptr<Pending> GlooCommunicator::send(const void* data, Bytes bytes, int peer, std::int32_t tag,
                                                NativeEvent) {
  return post(const_cast<void*>(data), bytes, peer, tag, true);  // Gloo has one type of buffer for both ways
}

std::unique_ptr<Pending> GlooCommunicator::receive(void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent) {
  return post(data, bytes, peer, tag, false);
}

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(const Rendezvous& rendezvous) {
  return std::make_unique<GlooCommunicator>(rendezvous);
}

}  // namespace motley
