#pragma once

// Messages with tags between two ranks, over a transport that has none and matches sends with receives in the order in
// which they are started (NCCL). The receiver says which tags it waits for, the sender starts what both have and says
// in which order. Receives that are posted early cost no round trip. Thread-safe.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace motley {

class MessageMatcher {
 public:
  struct Note {                                                   // what one side tells the other
    enum class Kind : std::int32_t { kReady = 0, kStarted = 1 };  // a receive is posted; a send is started
    Kind kind = Kind::kReady;
    std::int32_t tag = 0;
  };
  using Start = std::function<void()>;

  // `tell` brings notes to the other side's heard(), in order; it does not block.
  explicit MessageMatcher(std::function<void(Note)> tell) : tell_(std::move(tell)) {}

  // `start` is called from here or from heard(): once, when the other side has its part as well, and, for the messages
  // of one direction, in the same order on both sides, one at a time.
  void send(std::int32_t tag, Start start);
  void receive(std::int32_t tag, Start start);
  void heard(Note note);

 private:
  const std::function<void(Note)> tell_;
  std::mutex sending_;  // held while a send starts, so that the order of notes is the order of starts
  std::map<std::int32_t, std::deque<Start>> sends_;
  std::map<std::int32_t, std::int64_t> ready_;  // receives of the other side that no send has met
  std::mutex receiving_;
  std::map<std::int32_t, std::deque<Start>> receives_;
};

}  // namespace motley
