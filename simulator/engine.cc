#include "simulator/engine.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace motley {

Engine::Engine(const Cluster& cluster, const Deployment& deployment, const FlatDeployment& flat, MemoryLedger& memory)
    : cluster_(cluster),
      deployment_(deployment),
      flat_(flat),
      memory_(memory),
      network_(cluster),
      start_(flat.count(), -1),
      end_(flat.count(), -1),
      waits_(flat.waits),
      there_(flat.count(), 0),
      delay_(deployment.programs.size(), 0) {
  for (const Collective& collective : deployment.collectives) {
    missing_.push_back(static_cast<std::int32_t>(collective.members.size()));
  }
}

void Engine::run() {
  for (std::int32_t p = 0; on_memory && p + 1 < static_cast<std::int32_t>(flat_.first.size()); ++p) on_memory(p, 0);
  for (std::int32_t i = 0; i < flat_.count(); ++i) {
    if (waits_[i] == 0) ready_.push_back(i);
  }
  start_ready();
  while (finished_ < flat_.count()) {
    const double flow_end = network_.next_end().value;
    const bool flows_first = events_.empty() || flow_end < events_.top().time;
    if (flows_first && flow_end == std::numeric_limits<double>::infinity()) {
      std::int32_t stuck = 0;
      while (end_[stuck] >= 0) ++stuck;
      MOTLEY_CHECK(false, "the programs wait for each other: instruction " +
                              std::to_string(stuck - flat_.first[flat_.program[stuck]]) + " of device " +
                              std::to_string(device_of(stuck)) + " never ends");
    }
    now_ = flows_first ? flow_end : events_.top().time;
    while (true) {
      if (!events_.empty() && events_.top().time <= now_) {
        const Pending event = events_.top();
        events_.pop();
        happen(event);
      } else if (network_.next_end().value <= now_) {
        end_flow(network_.end_next());
      } else {
        break;
      }
    }
    start_ready();
  }
}

void Engine::start_ready() {
  // Starting makes nothing ready: that takes an end, which is an event even when it takes no time.
  std::sort(ready_.begin(), ready_.end());
  for (std::int32_t instruction : ready_) start(instruction);
  ready_.clear();
}

void Engine::start(std::int32_t i) {
  start_[i] = now_;
  memory_.allocate_for(i);
  if (on_memory) on_memory(flat_.program[i], now_);
  switch (flat_.instructions[i]->kind) {
    case InstructionKind::kSend:
      push(now_ + flat_.seconds[i], Happens::kFlow, i);
      break;
    case InstructionKind::kReceive:
      if (there_[flat_.peer[i]] != 0) start_flow(flat_.peer[i]);
      break;
    case InstructionKind::kAllReduce:
      memory_.fill_bucket(i);
      delay_[flat_.program[i]] += flat_.seconds[i];
      push(now_ + flat_.seconds[i], Happens::kEntry, i);
      break;
    default:
      start_[i] += delay_[flat_.program[i]];
      delay_[flat_.program[i]] = 0;
      push(start_[i] + flat_.seconds[i], Happens::kEnd, i);
  }
}

void Engine::happen(const Pending& event) {
  const std::int32_t i = event.index;
  switch (event.what) {
    case Happens::kEnd:
      finish(i);
      break;
    case Happens::kFlow:
      there_[i] = 1;
      if (start_[flat_.peer[i]] >= 0) start_flow(i);
      break;
    case Happens::kArrival:
      there_[i] = 1;
      finish_receives(i);
      break;
    case Happens::kEntry: {
      const CollectiveId collective = flat_.instructions[i]->collective;
      if (--missing_[collective] > 0) break;
      const double steps = 2.0 * static_cast<double>(flat_.members[collective].size() - 1);
      push(now_ + steps * flat_.step_seconds[collective], Happens::kRing, collective);
      break;
    }
    case Happens::kRing:
      start_ring(i);
      break;
    case Happens::kRingEnd:
      for (std::int32_t member : flat_.members[i]) finish(member);
      break;
  }
}

void Engine::start_flow(std::int32_t send) {
  network_.start(Seconds(now_), cluster_.route(device_of(send), device_of(flat_.peer[send])),
                 static_cast<double>(flat_.bytes[send]), send);
}

void Engine::finish_receives(std::int32_t receive) {
  const std::int32_t previous = flat_.previous_receive[receive];
  if (previous != kNone && end_[previous] < 0) return;
  for (; receive != kNone && there_[receive] != 0; receive = flat_.next_receive[receive]) {
    const std::int32_t before = flat_.previous_receive[receive];
    if (before != kNone) start_[receive] = std::max(start_[receive], end_[before]);
    finish(receive);
  }
}

void Engine::start_ring(CollectiveId collective) {
  const Collective& ring = deployment_.collectives[collective];
  const std::size_t n = ring.members.size();
  if (n == 1 || ring.bytes.value == 0) {
    push(now_, Happens::kRingEnd, collective);
    return;
  }
  missing_[collective] = static_cast<std::int32_t>(n);
  const double bytes =
      2.0 * static_cast<double>(n - 1) / static_cast<double>(n) * static_cast<double>(ring.bytes.value);
  for (std::size_t m = 0; m < n; ++m) {
    network_.start(Seconds(now_), cluster_.route(ring.members[m], ring.members[(m + 1) % n]), bytes, ~collective);
  }
}

void Engine::end_flow(std::int32_t key) {
  if (key < 0) {
    const CollectiveId collective = ~key;
    if (--missing_[collective] == 0) push(now_, Happens::kRingEnd, collective);
    return;
  }
  const std::int32_t receive = flat_.peer[key];
  const double latency = cluster_.latency(device_of(key), device_of(receive)).value;
  push(now_ + latency + flat_.seconds[receive], Happens::kArrival, receive);
  finish(key);
}

void Engine::finish(std::int32_t i) {
  end_[i] = now_;
  ++finished_;
  memory_.release_after(i);
  if (on_memory) on_memory(flat_.program[i], now_);
  for (std::int32_t later : flat_.dependents[i]) {
    if (--waits_[later] == 0) ready_.push_back(later);
  }
}

}  // namespace motley
