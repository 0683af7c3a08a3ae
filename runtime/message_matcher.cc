#include "runtime/message_matcher.h"

#include <utility>

#include "base/error.h"

namespace motley {

void MessageMatcher::send(std::int32_t tag, Start start) {
  std::lock_guard lock(sending_);
  const auto ready = ready_.find(tag);
  if (ready == ready_.end()) {
    sends_[tag].push_back(std::move(start));
    return;
  }
  if (--ready->second == 0) ready_.erase(ready);
  tell_({Note::Kind::kStarted, tag});
  start();
}

void MessageMatcher::receive(std::int32_t tag, Start start) {
  std::lock_guard lock(receiving_);
  receives_[tag].push_back(std::move(start));
  tell_({Note::Kind::kReady, tag});
}

void MessageMatcher::heard(Note note) {
  if (note.kind == Note::Kind::kReady) {
    std::lock_guard lock(sending_);
    const auto waiting = sends_.find(note.tag);
    if (waiting == sends_.end()) {
      ++ready_[note.tag];
      return;
    }
    const Start start = std::move(waiting->second.front());
    waiting->second.pop_front();
    if (waiting->second.empty()) sends_.erase(waiting);
    tell_({Note::Kind::kStarted, note.tag});
    start();
    return;
  }
  std::lock_guard lock(receiving_);
  const auto waiting = receives_.find(note.tag);
  MOTLEY_CHECK(waiting != receives_.end(), "a message with tag " + std::to_string(note.tag) + " that nobody waits for");
  const Start start = std::move(waiting->second.front());
  waiting->second.pop_front();
  if (waiting->second.empty()) receives_.erase(waiting);
  start();
}

}  // namespace motley
