#pragma once

// A deployment as flat arrays, with what each instruction costs, waits for and sets free: what the event loop walks.
// Instructions of all programs are numbered through, program by program; so are values.

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/deployment.h"
#include "profiler/cost_model.h"

namespace motley {

// Lists of numbers, one after the other in one array.
class FlatLists {
 public:
  // The lists are counted first and filled then: count() for every item, lay_out(), add() for every item.
  explicit FlatLists(std::size_t lists = 0) : ends_(lists + 1, 0) {}
  void count(std::int32_t list) { ++ends_[list + 1]; }
  void lay_out();
  void add(std::int32_t list, std::int32_t item) { items_[ends_[list]++] = item; }
  // Valid once all items are added.
  std::span<const std::int32_t> operator[](std::int32_t list) const {
    const std::int32_t begin = list == 0 ? 0 : ends_[list - 1];
    return {items_.data() + begin, static_cast<std::size_t>(ends_[list] - begin)};
  }

 private:
  std::vector<std::int32_t> ends_;  // while lists are filled: where the next item of each goes
  std::vector<std::int32_t> items_;
};

struct FlatDeployment {
  FlatDeployment(const Graph& graph, const Cluster& cluster, const CostModel& costs, const Deployment& deployment);

  std::int32_t count() const { return static_cast<std::int32_t>(instructions.size()); }

  std::vector<const Instruction*> instructions;
  std::vector<std::int32_t> first;        // per program, and one past the last: its first instruction
  std::vector<std::int32_t> first_value;  // per program, and one past the last: its first value
  std::vector<std::int32_t> program;      // per instruction
  // Per instruction: of compute and memory passes; of packing for an all-reduce; a message's overhead on this end.
  std::vector<double> seconds;
  // Per instruction: for its predecessor on the stream (a receive is posted: for the one kPostedReceives before it) and
  // for each input's producer.
  std::vector<std::int32_t> waits;
  FlatLists dependents;            // ... whose waits end with it
  std::vector<std::int32_t> peer;  // per send: the receive that it fills, and the other way round; kNone for others
  std::vector<std::int32_t> previous_receive, next_receive;  // per receive: of its device; kNone at the ends
  std::vector<double> step_seconds;                          // per collective: of one ring step, without the bytes
  std::vector<std::int64_t> bytes;                           // per send: of its message
  FlatLists members;                                         // per collective: its instructions, by device

  struct OpMemory {
    std::int64_t kept = 0;
    std::int64_t workspace = 0;
  };
  std::vector<OpMemory> op_memory;  // per instruction; of kCompute only
  std::vector<double> busy;         // per program: seconds of its compute stream
  double op_seconds = 0;            // of all ops
  double estimated_op_seconds = 0;  // ... of those whose cost is an estimate

 private:
  void time_instructions(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                         const Deployment& deployment);
  void link_instructions(const Deployment& deployment);
  void match_messages(const Deployment& deployment);
  void list_members(const Cluster& cluster, const CostModel& costs, const Deployment& deployment);
};

}  // namespace motley
