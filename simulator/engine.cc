#include "simulator/engine.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace motley {

Engine::Engine(const Cluster& cluster, const FlatDeployment& flat, MemoryLedger& memory)
    : flat_(flat),
      memory_(memory),
      network_(cluster),
      spans_(flat.count()),
      exchanges_(flat.transfers.size()),
      gatherings_(flat.collectives.size()),
      places_(flat.programs()) {
  waits_.reserve(flat.count());
  for (std::int32_t i = 0; i < flat.count(); ++i) {
    const Step& step = flat.steps[i];
    waits_.push_back(step.waits);
    if (step.waits == 0) ready_.push_back(i);
    Place& place = places_[step.program];
    if (step.stream == Stream::kReceive && place.receiving == kNone) place.receiving = i;
  }
  for (std::size_t c = 0; c < gatherings_.size(); ++c) {
    gatherings_[c] = {static_cast<std::int32_t>(flat.members[static_cast<CollectiveId>(c)].size()),
                      flat.collectives[c].first_phase};
  }
}

void Engine::run() {
  for (std::int32_t p = 0; on_memory && p < flat_.programs(); ++p) on_memory(p, 0);
  start_ready();
  while (finished_ < flat_.count()) {
    const double flow_end = network_.next_end().value;
    const bool flows_first = events_.empty() || flow_end < events_.top().time;
    if (flows_first && flow_end == std::numeric_limits<double>::infinity()) {
      std::int32_t stuck = 0;
      while (spans_[stuck].end >= 0) ++stuck;
      const std::int32_t program = flat_.steps[stuck].program;
      MOTLEY_CHECK(false, "the programs wait for each other: instruction " +
                              std::to_string(stuck - flat_.first[program]) + " of device " +
                              std::to_string(flat_.devices[program]) + " never ends");
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
  see_where_idle();
}

void Engine::start(std::int32_t i) {
  const Step& step = flat_.steps[i];
  if (step.next != kNone) expect(step.next);
  spans_[i].start = now_;
  memory_.allocate_for(i);
  if (on_memory) on_memory(step.program, now_);
  switch (step.stream) {
    case Stream::kCompute: {
      Place& place = places_[step.program];
      if (now_ > place.idle_since) {
        place.busy_since = now_;
        place.owed = 0;
      }
      place.computes = true;
      spans_[i].start += std::exchange(place.delay, 0);
      push(spans_[i].start + step.seconds, Happens::kEnd, i);
      break;
    }
    case Stream::kSend:
      push(now_ + step.seconds, Happens::kOffer, step.other);
      break;
    case Stream::kReceive:
      post(step.other);
      break;
    case Stream::kCollective:
      memory_.fill_bucket(i);
      places_[step.program].delay += step.seconds;
      push(now_ + step.seconds, Happens::kEntry, step.other);
      break;
  }
}

// With many programs, each one's next instruction is long out of the caches when its turn comes.
void Engine::expect(std::int32_t instruction) const {
  constexpr std::int32_t kAhead = 4;
  const std::int32_t further = std::min(instruction + kAhead, flat_.count() - 1);
  __builtin_prefetch(&flat_.steps[further]);
  __builtin_prefetch(&spans_[further], 1);
  memory_.expect(instruction);
}

void Engine::happen(const Pending& event) {
  switch (event.what) {
    case Happens::kEnd:
      finish_compute(event.index);
      break;
    case Happens::kOffer:
      exchanges_[event.index].offered = true;
      if (exchanges_[event.index].posted) start_flow(event.index);
      break;
    case Happens::kArrival:
      come(flat_.transfers[event.index].receive);
      break;
    case Happens::kSeen:
      if (std::erase(places_[flat_.steps[event.index].program].unseen, event.index) > 0) see(event.index);
      break;
    case Happens::kEntry:
      if (--gatherings_[event.index].missing == 0) start_phase(event.index);
      break;
    case Happens::kFlows:
      start_flows(event.index);
      break;
    case Happens::kCollectiveEnd:
      for (std::int32_t member : flat_.members[event.index]) finish(member);
      break;
  }
}

void Engine::post(std::int32_t index) {
  const Transfer& transfer = flat_.transfers[index];
  const std::int32_t receiver = flat_.steps[transfer.receive].program;
  Place& place = places_[receiver];
  const auto goes_to = [&](std::int32_t other) { return flat_.steps[flat_.transfers[other].receive].program; };
  if (flat_.on_cpu[receiver] && place.sending != kNone &&
      goes_to(place.sending) == flat_.steps[transfer.send].program) {
    place.told.push_back(index);
    return;
  }
  exchanges_[index].posted = true;
  if (exchanges_[index].offered) come(transfer.send);
}

void Engine::start_flow(std::int32_t index) {
  const Transfer& transfer = flat_.transfers[index];
  if (flat_.messages_delay) {
    if (talks(index)) {
      in_line_.push_back(index);
      return;
    }
    set_talking(index, true);
  }
  exchanges_[index].flow_start = now_;
  places_[flat_.steps[transfer.send].program].sending = index;
  network_.start(Seconds(now_), transfer.route, transfer.bytes, index);
}

// What the send or receive waits for.
void Engine::come(std::int32_t instruction) {
  const std::int32_t program = flat_.steps[instruction].program;
  const double pause = flat_.messages[program].pause.value;
  if (!places_[program].computes || pause == 0) return see(instruction);
  places_[program].unseen.push_back(instruction);
  push(now_ + pause, Happens::kSeen, instruction);
}

void Engine::see(std::int32_t instruction) {
  const Step& step = flat_.steps[instruction];
  if (step.stream == Stream::kSend) return start_flow(step.other);
  exchanges_[step.other].arrived = true;
  finish_receives(step.program);
}

void Engine::see_where_idle() {
  for (const std::int32_t program : stopped_) {
    if (places_[program].computes) continue;
    for (const std::int32_t instruction : places_[program].unseen) push(now_, Happens::kSeen, instruction);
  }
  stopped_.clear();
}

void Engine::finish_receives(std::int32_t program) {
  Place& place = places_[program];
  while (place.receiving != kNone && exchanges_[flat_.steps[place.receiving].other].arrived) {
    const std::int32_t receive = place.receiving;
    spans_[receive].start = std::max(spans_[receive].start, place.received);
    place.received = now_;
    place.receiving = flat_.steps[receive].next;
    finish(receive);
  }
}

void Engine::start_phase(CollectiveId collective) {
  const std::int32_t phase = gatherings_[collective].phase;
  if (phase == flat_.collectives[collective].end_phase) {
    push(now_, Happens::kCollectiveEnd, collective);
  } else {
    push(now_ + flat_.phases[phase].latency, Happens::kFlows, collective);
  }
}

void Engine::start_flows(CollectiveId collective) {
  Gathering& gathering = gatherings_[collective];
  const FlatPhase& phase = flat_.phases[gathering.phase++];
  gathering.missing = phase.end_flow - phase.first_flow;
  gathering.flow_start = now_;
  for (std::int32_t flow = phase.first_flow; flow < phase.end_flow; ++flow) {
    network_.start(Seconds(now_), flat_.flows[flow].route, flat_.flows[flow].bytes, ~collective);
  }
  if (gathering.missing == 0) start_phase(collective);
}

void Engine::end_flow(std::int32_t key) {
  if (key < 0) {
    const CollectiveId collective = ~key;
    Gathering& gathering = gatherings_[collective];
    if (--gathering.missing > 0) return;
    const FlatPhase& phase = flat_.phases[gathering.phase - 1];
    for (std::int32_t f = phase.first_flow; flat_.messages_delay && f < phase.end_flow; ++f) {
      const FlatFlow& flow = flat_.flows[f];
      delay_compute(flow.sender, flow.messages, flow.bytes, gathering.flow_start);
      delay_compute(flow.receiver, flow.messages, flow.bytes, gathering.flow_start);
    }
    start_phase(collective);
    return;
  }
  const Transfer& transfer = flat_.transfers[key];
  if (flat_.messages_delay) {
    for (const std::int32_t end : {transfer.send, transfer.receive}) {
      const std::int32_t program = flat_.steps[end].program;
      if (!flat_.messages[program].in_line) {
        delay_compute(program, 1, transfer.bytes, exchanges_[key].flow_start);
      }
    }
    end_in_line(key);
  }
  push(now_ + transfer.latency + flat_.steps[transfer.receive].seconds, Happens::kArrival, key);
  Place& sender = places_[flat_.steps[transfer.send].program];
  sender.sending = kNone;
  for (const std::int32_t other : std::exchange(sender.told, {})) post(other);
  finish(transfer.send);
}

void Engine::delay_compute(std::int32_t program, double messages, double bytes, double since) {
  if (program == kNone || !places_[program].computes) return;
  Place& place = places_[program];
  const MessageCosts& costs = flat_.messages[program];
  const double whole = now_ - since;
  const double beside = whole > 0 ? std::min(1.0, (now_ - place.busy_since) / whole) : 1;
  place.owed += beside * (costs.work.value * messages + costs.work_per_byte.value * bytes);
}

bool Engine::talks(std::int32_t index) const {
  const Transfer& transfer = flat_.transfers[index];
  return places_[flat_.steps[transfer.send].program].talking || places_[flat_.steps[transfer.receive].program].talking;
}

void Engine::set_talking(std::int32_t index, bool talking) {
  for (const std::int32_t end : {flat_.transfers[index].send, flat_.transfers[index].receive}) {
    const std::int32_t program = flat_.steps[end].program;
    places_[program].talking = talking && flat_.messages[program].in_line;
  }
}

void Engine::end_in_line(std::int32_t index) {
  const Transfer& transfer = flat_.transfers[index];
  const double since = exchanges_[index].flow_start - flat_.steps[transfer.send].seconds;
  for (const std::int32_t end : {transfer.send, transfer.receive}) {
    Place& place = places_[flat_.steps[end].program];
    const bool just_ended = place.idle_since == now_;  // then the next one has it, if that starts at once
    if (place.talking && (place.computes || just_ended)) place.owed += now_ - std::max(since, place.busy_since);
  }
  set_talking(index, false);
  for (std::int32_t waiting : std::exchange(in_line_, {})) start_flow(waiting);
}

void Engine::finish_compute(std::int32_t i) {
  Place& place = places_[flat_.steps[i].program];
  if (place.owed > 0) {
    push(now_ + std::exchange(place.owed, 0), Happens::kEnd, i);
    return;
  }
  place.computes = false;
  place.idle_since = now_;
  if (!place.unseen.empty()) stopped_.push_back(flat_.steps[i].program);
  finish(i);
  for (const std::int32_t receive : place.later) set_free(receive);
  place.later.clear();
}

void Engine::finish(std::int32_t i) {
  const Step& step = flat_.steps[i];
  spans_[i].end = now_;
  ++finished_;
  memory_.release_after(i);
  if (on_memory) on_memory(step.program, now_);
  Place& place = places_[step.program];
  if (step.stream == Stream::kReceive && place.computes && flat_.on_cpu[step.program]) {
    place.later.push_back(i);
  } else {
    set_free(i);
  }
}

// What waits for the instruction.
void Engine::set_free(std::int32_t i) {
  const Step& step = flat_.steps[i];
  if (step.next != kNone && step.stream != Stream::kReceive) waited_for(step.next);
  if (!step.awaited) return;
  for (std::int32_t later : flat_.dependents[i]) waited_for(later);
}

}  // namespace motley
