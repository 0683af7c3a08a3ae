#pragma once

// What made an iteration as long as it was. Works on any timeline of a deployment, predicted or measured.
//
// An instruction has two moments, its begin and its end, and a moment waits for others, as the deployment says:
//  - A begin waits for the ends of the one before it on its stream and of those that make its inputs; that of a receive
//    for the end of the receive kPostedReceives before it.
//  - An end waits for its own begin. That of a send also until the receive is posted (the end of the receive
//    kPostedReceives before that one); that of a receive for the send's begin and the end of the receive before it;
//    that of an all-reduce for the begins of all members.
// The critical path goes back from the last end of all, always to the last moment that was waited for, until one that
// waited for nothing. Its steps, each from one moment to the next, follow each other without a gap, so they add up to
// the length of the timeline.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compiler/deployment.h"
#include "simulator/simulator.h"

namespace motley {

enum class Edge : std::uint8_t { kBegin, kEnd };

// From the last moment that it waited for until the begin (its inputs were there and its stream was free, but it had
// not begun: the host was busy) or the end (it ran) of an instruction.
struct PathStep {
  DeviceIndex device = 0;
  std::int32_t instruction = 0;  // index into its program
  Edge until = Edge::kEnd;
  bool first = false;  // waited for nothing: from the timeline's origin
  Seconds from;
  Seconds to;
};

// A timeline with what its instructions waited for. Needs the deployment while it is used. Thread-safe.
class CausalTimeline {
 public:
  // `deployment` is one that check() accepts; `events` are of one iteration, from time 0, in any order. Throws
  // Error(kInvalidInput) unless they are each instruction of the deployment once.
  CausalTimeline(const Deployment& deployment, const std::vector<Event>& events);

  Seconds length() const { return length_; }  // until the last end

  // In order of time, from 0 to length(); a step may take no time. Measured by clocks that disagree, a moment can stand
  // before what it waited for: its step then takes no time, and the path goes on from where it is.
  std::vector<PathStep> critical_path() const;

  // From every moment's last awaited one until it: how long each instruction took, whether anything waited for it or
  // not. Without what waited for nothing, and without the begins of receives, which only hold up receives.
  std::vector<PathStep> steps() const;

  // How long the step takes here, which may be of another timeline of the same deployment. The steps of one's critical
  // path take no longer in another than that one's length, but for clocks that disagree.
  Seconds duration(const PathStep& step) const;

 private:
  struct Moment {
    std::int32_t instruction = kNone;
    Edge edge = Edge::kEnd;
  };
  struct Node {  // an instruction; all are numbered through, program by program
    const Instruction* instruction = nullptr;
    std::int32_t program = 0;
    std::int32_t before = kNone;   // on its stream
    std::int32_t posting = kNone;  // a receive's: whose end posts it
    std::int32_t partner = kNone;  // a send's receive, a receive's send
    Seconds begin{-1};
    Seconds end{-1};
  };

  void link();
  void take_times(const std::vector<Event>& events);
  std::int32_t number_of(DeviceIndex device, std::int32_t instruction) const;  // kNone: there is no such instruction
  DeviceIndex device_of(const Node& node) const { return deployment_.programs[node.program].device; }
  Seconds at(Moment moment) const;
  template <typename Visit>
  void for_each_awaited(Moment moment, const Visit& visit) const;
  Moment last_awaited(Moment moment) const;  // kNone when there is none; of equal ones, the first
  PathStep step(Moment moment, Seconds from, Seconds to, bool first) const;

  const Deployment& deployment_;
  std::unordered_map<DeviceIndex, std::int32_t> program_of_;
  std::vector<std::int32_t> first_;  // per program, and one past the last
  std::vector<Node> nodes_;
  std::vector<std::vector<std::int32_t>> producers_;  // per program, by value
  std::vector<std::vector<std::int32_t>> members_;    // per collective
  Seconds length_;
};

}  // namespace motley
