#pragma once

// The event loop. What the header simulator.h leaves open, it settles so:
//  - A compute instruction runs for its cost.
//  - A send waits until its receive is posted, as Gloo's and NCCL's do. It occupies its stream for the message overhead
//    of its device, and what a message of its size loses on the route (Cluster::shortfall), and then until its flow
//    has ended: the last byte has left. That arrives the route's latency later,
//    and the receive ends the message overhead of its device after that.
//  - A device posts kPostedReceives receives at a time, in order; each holds its memory from then on. They end in
//    order; one begins, in the timeline, when it is posted and the one before it has ended.
//  - That a receive was posted, Gloo tells the sender on the connection that carries the messages to it: after the one
//    that is under way.
//  - What comes over the network to a device that computes is seen its pause later (MessageCosts::pause), or once its
//    compute stream falls idle: a message, and that a receive was posted for which a send waits. An idle device has a
//    core's next turn and quota left; and a thread that the compute thread wakes, as to send, has its turn at once.
//  - What a receive makes possible, a compute thread does between instructions: posting the next, or sending the value
//    on. On a CPU it is busy with the instruction that runs; on an accelerator it only queues them.
//  - Messages slow the compute of both ends (MessageCosts::work): when a message has left or arrived, the compute
//    instruction that runs there ends later by the message's work, or by the part of it that fell into the time since
//    which the compute stream has been busy. That goes for the hops of an all-reduce as well.
//  - Where messages are in line (MessageCosts::in_line), a transfer waits until both ends have no other under way, and
//    a compute instruction that runs at its end is longer by what of the transfer it ran beside.
//  - A member that brings several values to an all-reduce packs them first, which takes a memory pass of its compute
//    stream: the compute instruction that starts next is later by it.
//  - An all-reduce starts when its last member has entered. It runs by the algorithm that Gloo or NCCL would choose
//    (simulator/collective.h), phase by phase: a phase's fixed time, then its flows, all at once, sharing channels with
//    whatever else crosses them. Its members end together.
//  - What ends at one time ends before what starts then; ties go by kind and number.

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
  Engine(const Cluster& cluster, const FlatDeployment& flat, MemoryLedger& memory);

  // Called after every change of a program's memory, in order of time.
  std::function<void(std::int32_t program, double time)> on_memory;

  void run();  // once; throws Error(kInternal) naming the instruction when the programs wait for each other

  double end() const { return now_; }  // of the last instruction
  double start_of(std::int32_t instruction) const { return spans_[instruction].start; }
  double end_of(std::int32_t instruction) const { return spans_[instruction].end; }
  const FlowNetwork& network() const { return network_; }

 private:
  enum class Happens : std::int32_t { kEnd, kOffer, kArrival, kSeen, kEntry, kFlows, kCollectiveEnd };
  struct Pending {
    double time;
    std::int32_t index;  // an instruction; kOffer, kArrival: a transfer; kFlows, kCollectiveEnd: a collective
    Happens what;
    bool operator>(const Pending& other) const {
      if (time != other.time) return time > other.time;
      return what != other.what ? what > other.what : index > other.index;
    }
  };
  struct Span {
    double start = -1;
    double end = -1;
  };
  struct Exchange {  // a transfer
    bool offered = false;
    bool posted = false;
    bool arrived = false;
    double flow_start = 0;
  };
  struct Gathering {           // a collective
    std::int32_t missing = 0;  // members that have not entered; then, flows of the phase that run
    std::int32_t phase = 0;
    double flow_start = 0;  // of the phase
  };
  struct Place {                     // a program
    double delay = 0;                // of the next compute instruction, by packing
    std::int32_t receiving = kNone;  // the first receive that has not ended
    double received = 0;             // when the one before it has
    std::int32_t sending = kNone;    // the transfer whose flow runs
    std::vector<std::int32_t> told;  // transfers to here, of which it tells their sender after that one
    bool computes = false;
    double busy_since = 0;  // the compute stream, without a gap
    double idle_since = 0;
    double owed = 0;                   // seconds that the compute instruction lost to messages
    bool talking = false;              // a message in line is under way
    std::vector<std::int32_t> unseen;  // sends and receives to which something came
    std::vector<std::int32_t> later;   // receives that ended while an instruction ran on a CPU
  };
  void start_ready();
  void start(std::int32_t instruction);
  void expect(std::int32_t instruction) const;
  void finish(std::int32_t instruction);
  void set_free(std::int32_t instruction);
  void finish_compute(std::int32_t instruction);
  void delay_compute(std::int32_t program, double messages, double bytes, double since);
  void post(std::int32_t transfer);
  bool talks(std::int32_t transfer) const;  // whether one of its ends has another in line
  void set_talking(std::int32_t transfer, bool talking);
  void end_in_line(std::int32_t transfer);
  void start_flow(std::int32_t transfer);
  void come(std::int32_t instruction);
  void see(std::int32_t instruction);
  void see_where_idle();
  void finish_receives(std::int32_t program);
  void happen(const Pending& event);
  void start_phase(CollectiveId collective);
  void start_flows(CollectiveId collective);
  void end_flow(std::int32_t key);
  void waited_for(std::int32_t instruction) {
    if (--waits_[instruction] == 0) ready_.push_back(instruction);
  }
  void push(double time, Happens what, std::int32_t index) { events_.push({time, index, what}); }

  const FlatDeployment& flat_;
  MemoryLedger& memory_;
  FlowNetwork network_;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> events_;
  double now_ = 0;
  std::int32_t finished_ = 0;
  std::vector<Span> spans_;            // per instruction
  std::vector<std::uint8_t> waits_;    // per instruction
  std::vector<Exchange> exchanges_;    // per transfer
  std::vector<Gathering> gatherings_;  // per collective
  std::vector<Place> places_;          // per program
  std::vector<std::int32_t> ready_;
  std::vector<std::int32_t> stopped_;  // programs with something unseen whose compute instruction has ended
  std::vector<std::int32_t> in_line_;  // transfers that wait for others
};

}  // namespace motley
