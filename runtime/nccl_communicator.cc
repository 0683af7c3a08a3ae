#include "runtime/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "runtime/gloo_communicator.h"
#include "runtime/message_matcher.h"
#include "runtime/nccl_comm.h"
#include "runtime/nccl_message.h"

namespace motley {
namespace {

using Clock = std::chrono::steady_clock;
using Note = MessageMatcher::Note;

constexpr std::int32_t kNoteTag = 0;  // of the Gloo communicator, which carries nothing else point to point
constexpr Seconds kForever{1e7};

struct FreeOnDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const Rendezvous& rendezvous, int device)
      : rendezvous_(rendezvous),
        device_(device),
        control_(make_gloo_communicator(rendezvous)),
        peers_(rendezvous.size) {
    use_device();
    void* nothing = nullptr;
    check_cuda(cudaMalloc(&nothing, 2), "memory for empty messages");
    nothing_.reset(nothing);
    std::vector<int> all(rendezvous.size);
    std::iota(all.begin(), all.end(), 0);
    groups_.push_back({kAllRanks, connect("all", all, rendezvous.timeout)});
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) peers_[peer] = std::make_unique<Peer>([this, peer](Note note) { tell(peer, note); });
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      threads_.emplace_back([this, peer] { listen(peer); });
      threads_.emplace_back([this, peer] { speak(peer); });
    }
  }

  ~NcclCommunicator() override {
    abort(name_of(rank()) + " has left");
    threads_.clear();
  }

  int rank() const override { return rendezvous_.rank; }
  int size() const override { return rendezvous_.size; }
  std::string name_of(int rank) const override { return rank_name(rendezvous_, rank); }

  std::unique_ptr<Pending> send(const void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent ready) override {
    return post(bytes, peer, tag, ready, true,
                [=, this](std::size_t count, void* nothing, ncclComm_t comm, cudaStream_t on) {
                  return ncclSend(bytes.value > 0 ? data : nothing, count, ncclUint8, rank() < peer ? 1 : 0, comm, on);
                });
  }
  std::unique_ptr<Pending> receive(void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent ready) override {
    return post(bytes, peer, tag, ready, false,
                [=, this](std::size_t count, void* nothing, ncclComm_t comm, cudaStream_t on) {
                  return ncclRecv(bytes.value > 0 ? data : nothing, count, ncclUint8, rank() < peer ? 1 : 0, comm, on);
                });
  }

  RankGroup create_group(const std::vector<int>& members, Seconds timeout) override {
    const RankGroup control = control_->create_group(members, timeout);
    std::string key;
    for (const int member : members) key += std::to_string(member) + "-";
    {
      std::lock_guard lock(mutex_);
      key += std::to_string(created_[key]++);
    }
    auto comm = connect("group-" + key, members, timeout);
    std::lock_guard lock(mutex_);
    groups_.push_back({control, std::move(comm)});
    return static_cast<RankGroup>(groups_.size() - 1);
  }

  const std::vector<int>& members(RankGroup group) const override { return control_->members(at(group).control); }

  void all_reduce(RankGroup group, void* data, std::int64_t count, DType dtype, Seconds timeout,
                  NativeEvent ready) override {
    const ncclDataType_t type = nccl_type(dtype);
    if (count == 0) return;
    run(group, timeout, ready, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(data, data, static_cast<std::size_t>(count), type, dtype == DType::kBool ? ncclMax : ncclSum,
                           comm, stream);
    });
  }
  void all_gather(RankGroup group, const void* mine, void* all, Bytes each, Seconds timeout,
                  NativeEvent ready) override {
    if (each.value == 0) return;
    run(group, timeout, ready, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(mine, all, static_cast<std::size_t>(each.value), ncclUint8, comm, stream);
    });
  }
  void broadcast(RankGroup group, void* data, Bytes bytes, int root, Seconds timeout, NativeEvent ready) override {
    if (bytes.value == 0) return;
    const std::vector<int>& ranks = members(group);
    const auto place = std::find(ranks.begin(), ranks.end(), root) - ranks.begin();
    run(group, timeout, ready, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(data, data, static_cast<std::size_t>(bytes.value), ncclUint8, static_cast<int>(place), comm,
                           stream);
    });
  }
  void barrier(RankGroup group, Seconds timeout) override { control_->barrier(at(group).control, timeout); }

  void abort(const std::string& reason) override {
    {
      std::lock_guard lock(mutex_);
      if (!abort_reason_.empty()) return;
      abort_reason_ = reason;
    }
    aborted_ = true;
    control_->abort(reason);
    for (const auto& peer : peers_) {
      if (!peer) continue;
      peer->spoken.notify_all();
      std::lock_guard lock(peer->mutex);
      for (const auto& comm : peer->comms) {
        if (comm) comm->abort();
      }
    }
    std::lock_guard lock(mutex_);
    for (const auto& group : groups_) group.comm->abort();
  }

  // Blocks until the message was started on this side.
  void wait_started(NcclMessage& message, Seconds timeout, const std::string& what) {
    const auto start = Clock::now();
    std::unique_lock lock(message.mutex);
    while (!message.started) {
      message.changed.wait_for(lock, std::chrono::milliseconds(20));
      throw_if_aborted();
      throw_if_late(start, timeout, what);
    }
  }

  void wait_done(const CudaEvent& done, NcclComm* comm, Seconds timeout, const std::string& what) {
    const auto start = Clock::now();
    while (!done.passed()) {
      throw_if_aborted();
      if (comm != nullptr) comm->check();
      throw_if_late(start, timeout, what);
      // Short messages are worth looking for closely.
      if (Clock::now() - start > std::chrono::microseconds(100)) std::this_thread::sleep_for(kPoll);
    }
    throw_if_aborted();  // which ends the kernels, so that the event passes
  }

  void use_device() const { check_cuda(cudaSetDevice(device_), "CUDA device " + std::to_string(device_)); }

 private:
  static constexpr std::chrono::microseconds kPoll{20};

  struct Peer {
    explicit Peer(std::function<void(Note)> tell) : matcher(std::move(tell)) {}
    MessageMatcher matcher;
    std::mutex mutex;                                // guards what follows
    std::array<std::unique_ptr<NcclComm>, 2> comms;  // from the lower rank to the higher, and back
    std::deque<Note> notes;                          // to be told
    std::condition_variable spoken;
    std::mutex connecting;
  };
  struct Group {
    RankGroup control;
    std::shared_ptr<NcclComm> comm;
  };

  Group at(RankGroup group) const {
    std::lock_guard lock(mutex_);
    MOTLEY_CHECK(group >= 0 && static_cast<std::size_t>(group) < groups_.size(), "no group " + std::to_string(group));
    return groups_[group];
  }

  void throw_if_aborted() const {
    if (!aborted_) return;
    std::lock_guard lock(mutex_);
    throw Error(ErrorKind::kUnavailable, abort_reason_);
  }

  static void throw_if_late(Clock::time_point start, Seconds timeout, const std::string& what) {
    if (std::chrono::duration<double>(Clock::now() - start).count() < timeout.value) return;
    throw Error(ErrorKind::kUnavailable, what + " waited " + to_string(timeout) + ": it is stuck, or the link is");
  }

  // The lowest member makes the identity of a connection and publishes it.
  std::unique_ptr<NcclComm> connect(const std::string& key, const std::vector<int>& ranks, Seconds timeout) {
    const std::string name = "the group of ranks " + key;
    const std::string store_key = "nccl/" + key;
    ncclUniqueId id{};
    if (rank() == ranks.front()) {
      const ncclResult_t made = ncclGetUniqueId(&id);
      if (made != ncclSuccess) throw Error(ErrorKind::kUnavailable, name + ": NCCL: " + ncclGetErrorString(made));
      rendezvous_.store->set(store_key, std::string(id.internal, sizeof(id.internal)));
    } else {
      const auto found = find(store_key, timeout);
      if (!found || found->size() != sizeof(id.internal)) {
        throw Error(ErrorKind::kUnavailable,
                    name + ": " + name_of(ranks.front()) + " did not come within " + to_string(timeout));
      }
      std::memcpy(id.internal, found->data(), sizeof(id.internal));
    }
    const auto place = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    return std::make_unique<NcclComm>(id, static_cast<int>(ranks.size()), static_cast<int>(place), name, timeout,
                                      aborted_);
  }

  // As Store::get, but ended by abort().
  std::optional<std::string> find(const std::string& key, Seconds timeout) {
    const auto start = Clock::now();
    for (;;) {
      if (auto value = rendezvous_.store->get(key, Seconds(0.2))) return value;
      throw_if_aborted();
      if (std::chrono::duration<double>(Clock::now() - start).count() > timeout.value) return std::nullopt;
    }
  }

  // The connection that carries messages from this rank (or to it). Both directions are made together, so that the two
  // ranks meet whichever direction each of them needs first.
  NcclComm& direction(int peer, bool outgoing) {
    Peer& to = *peers_[peer];
    const auto [low, high] = std::minmax({rank(), peer});
    std::lock_guard connecting(to.connecting);
    for (const int way : {0, 1}) {
      if (to.comms[way]) continue;
      const std::string key = (way == 0 ? "up-" : "down-") + std::to_string(low) + "-" + std::to_string(high);
      auto comm = connect(key, {low, high}, rendezvous_.timeout);
      std::lock_guard lock(to.mutex);
      to.comms[way] = std::move(comm);
    }
    return *to.comms[(rank() == low) == outgoing ? 0 : 1];
  }

  template <class Call>
  std::unique_ptr<Pending> post(Bytes bytes, int peer, std::int32_t tag, NativeEvent ready, bool sends, Call call);

  template <class Call>
  void run(RankGroup group, Seconds timeout, NativeEvent ready, Call call) {
    throw_if_aborted();
    use_device();
    const auto comm = at(group).comm;
    std::string what = "a collective of ranks";
    for (const int member : members(group)) what += " " + std::to_string(member);
    try {
      const CudaEvent done;
      comm->launch(ready, done, timeout, call);
      wait_done(done, comm.get(), timeout, what);
    } catch (const std::exception& error) {
      fail_with(error.what());
    }
  }

  [[noreturn]] void fail_with(const std::string& reason) {
    abort(reason);
    std::lock_guard lock(mutex_);
    throw Error(ErrorKind::kUnavailable, abort_reason_);
  }

  void tell(int peer, Note note) {
    std::lock_guard lock(peers_[peer]->mutex);
    peers_[peer]->notes.push_back(note);
    peers_[peer]->spoken.notify_all();
  }

  // A thread per peer that brings notes there, and one that hears them; so neither waits for the other.
  void speak(int peer) {
    Peer& to = *peers_[peer];
    try {
      for (;;) {
        std::unique_lock lock(to.mutex);
        // `aborted_` is set without the lock: look now and then.
        while (to.notes.empty() && !aborted_) to.spoken.wait_for(lock, std::chrono::milliseconds(100));
        if (aborted_) return;
        const Note note = to.notes.front();
        to.notes.pop_front();
        lock.unlock();
        control_->send(&note, Bytes(sizeof(note)), peer, kNoteTag)->wait(kForever);
      }
    } catch (const std::exception& error) {
      abort(error.what());
    }
  }

  void listen(int peer) {
    try {
      use_device();
      while (!aborted_) {
        Note note;
        control_->receive(&note, Bytes(sizeof(note)), peer, kNoteTag)->wait(kForever);
        peers_[peer]->matcher.heard(note);
      }
    } catch (const std::exception& error) {
      abort(error.what());
    }
  }

  const Rendezvous rendezvous_;
  const int device_;
  const std::unique_ptr<Communicator> control_;
  const std::shared_ptr<NcclRelays> relays_ = std::make_shared<NcclRelays>();
  std::unique_ptr<void, FreeOnDevice> nothing_;  // what empty messages send and receive
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Group> groups_;
  std::map<std::string, int> created_;
  std::string abort_reason_;
  std::vector<std::jthread> threads_;
};

class NcclPending : public Pending {
 public:
  NcclPending(NcclCommunicator& owner, std::shared_ptr<NcclMessage> message, std::string what)
      : owner_(owner), message_(std::move(message)), what_(std::move(what)) {}

  void wait(Seconds timeout) override {
    owner_.wait_started(*message_, timeout, what_);
    owner_.wait_done(message_->done, nullptr, timeout, what_);
  }
  void order_before(void* stream) override {
    owner_.wait_started(*message_, kForever, what_);
    check_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), message_->done.get(), 0), what_);
  }

 private:
  NcclCommunicator& owner_;
  const std::shared_ptr<NcclMessage> message_;
  const std::string what_;
};

template <class Call>
std::unique_ptr<Pending> NcclCommunicator::post(Bytes bytes, int peer, std::int32_t tag, NativeEvent ready, bool sends,
                                                Call call) {
  MOTLEY_CHECK(peer >= 0 && peer < size() && peer != rank(), "a message with rank " + std::to_string(peer));
  throw_if_aborted();
  use_device();
  const std::string what = name_of(rank()) + (sends ? " sending " : " receiving ") + to_string(bytes) + " (tag " +
                           std::to_string(tag) + (sends ? ") to " : ") from ") + name_of(peer);
  auto message = std::make_shared<NcclMessage>(relays_, ready);
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(bytes.value, 1));
  void* nothing = static_cast<char*>(nothing_.get()) + (sends ? 0 : 1);
  const MessageMatcher::Start start = [=, this] {
    direction(peer, sends)
        .launch(message->ready_event(), message->done, rendezvous_.timeout,
                [&](ncclComm_t comm, cudaStream_t stream) { return call(count, nothing, comm, stream); });
    std::lock_guard lock(message->mutex);
    message->started = true;
    message->changed.notify_all();
  };
  MessageMatcher& matcher = peers_[peer]->matcher;
  try {
    sends ? matcher.send(tag, start) : matcher.receive(tag, start);
  } catch (const std::exception& error) {
    fail_with(error.what());
  }
  return std::make_unique<NcclPending>(*this, std::move(message), what);
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const Rendezvous& rendezvous, int cuda_device) {
  return std::make_unique<NcclCommunicator>(rendezvous, cuda_device);
}

}  // namespace motley
