#pragma once

// The event loop. What the header simulator.h leaves open, it settles so:
//  - A compute instruction runs for its cost.
//  - A send waits until its receive is posted, as Gloo's and NCCL's do. It occupies its stream for the message overhead
//  of
//    its device and then until its flow has ended: the last byte has left. That arrives the route's latency later, and
//    the receive ends the message overhead of its device after that.
//  - A device posts kPostedReceives receives at a time, in order; each holds its memory from then on. They end in
//  order; one
//    begins, in the timeline, when it is posted and the one before it has ended.
//  - A member that brings several values to an all-reduce packs them first, which takes a memory pass of its compute
//    stream: the compute instruction that starts next is later by it.
//  - An all-reduce starts when its last member has entered. The ring algorithm over n members in order takes 2(n-1)
//  steps
//    in which every member sends bytes/n to the next (Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms,
//    JPDC 2009, section 4). In closed form: 2(n-1) times the slowest edge's latency and overhead, and then one flow of
//    2(n-1)/n * bytes per edge, all at once, sharing channels with whatever else crosses them. Its members end
//    together.
//  - What ends at one time ends before what starts then; ties go by device, then by place in the program.

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "simulator/flat.h"
#include "simulator/flow.h"
#include "simulator/memory.h"

namespace motley {

class Engine {
 public:
  // All references must outlive the engine.
  Engine(const Cluster& cluster, const Deployment& deployment, const FlatDeployment& flat, MemoryLedger& memory);

  // Called after every change of a program's memory, in order of time.
  std::function<void(std::int32_t program, double time)> on_memory;

  void run();  // once; throws Error(kInternal) naming the instruction when the programs wait for each other

  double end() const { return now_; }  // of the last instruction
  double start_of(std::int32_t instruction) const { return start_[instruction]; }
  double end_of(std::int32_t instruction) const { return end_[instruction]; }
  const FlowNetwork& network() const { return network_; }

 private:
  enum class Happens : std::uint8_t { kEnd, kFlow, kArrival, kEntry, kRing, kRingEnd };
  struct Pending {
    double time;
    Happens what;
    std::int32_t index;  // an instruction; kRing, kRingEnd: a collective
    bool operator>(const Pending& other) const {
      if (time != other.time) return time > other.time;
      return index != other.index ? index > other.index : what > other.what;
    }
  };
  void start_ready();
  void start(std::int32_t instruction);
  void finish(std::int32_t instruction);
  void start_flow(std::int32_t send);
  void finish_receives(std::int32_t receive);
  void happen(const Pending& event);
  void start_ring(CollectiveId collective);
  void end_flow(std::int32_t key);
  void push(double time, Happens what, std::int32_t index) { events_.push({time, what, index}); }
  DeviceIndex device_of(std::int32_t instruction) const {
    return deployment_.programs[flat_.program[instruction]].device;
  }

  const Cluster& cluster_;
  const Deployment& deployment_;
  const FlatDeployment& flat_;
  MemoryLedger& memory_;
  FlowNetwork network_;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> events_;
  double now_ = 0;
  std::int32_t finished_ = 0;
  std::vector<double> start_, end_;    // per instruction
  std::vector<std::int32_t> waits_;    // per instruction
  std::vector<char> there_;            // per send: may flow; per receive: its data is there
  std::vector<double> delay_;          // per program: of the next compute instruction, by packing
  std::vector<std::int32_t> missing_;  // per collective: members that have not entered, then flows that run
  std::vector<std::int32_t> ready_;
};

}  // namespace motley
