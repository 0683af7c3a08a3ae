#include "compiler/scheduler.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace motley {
namespace {

class Scheduler {
 public:
  Scheduler(const TaskGraph& graph, DeviceIndex devices)
      : graph_(graph),
        devices_(devices),
        first_(graph.tasks.size() + 1),
        waits_(graph.tasks.size()),
        sets_of_(at(devices)) {
    link();
    for (std::size_t set = 0; set < graph.member_sets.size(); ++set) {
      for (DeviceIndex member : graph.member_sets[set]) sets_of_[at(member)].push_back(static_cast<std::int32_t>(set));
    }
  }

  std::vector<double> upward_ranks() const {
    std::vector<double> ranks(graph_.tasks.size());
    std::vector<TaskId> next_of_set(graph_.member_sets.size(), kNone);
    std::vector<TaskId> next_of_sender(at(devices_), kNone);
    for (auto id = static_cast<TaskId>(graph_.tasks.size() - 1); id >= 0; --id) {
      const Task& task = graph_.tasks[at(id)];
      if (task.kind == InstructionKind::kAllReduce || task.kind == InstructionKind::kSend) {
        const bool send = task.kind == InstructionKind::kSend;
        TaskId& next = send ? next_of_sender[at(task.device)] : next_of_set[at(task.members)];
        if (next != kNone) ranks[at(id)] = std::max(ranks[at(id)], ranks[at(next)]);
        next = id;
      }
      ranks[at(id)] += task.seconds;
      for (NodeId input : graph_.inputs_of(task)) {
        const TaskId maker = input == kNone ? kNone : graph_.values[at(input)].maker;
        if (maker != kNone) ranks[at(maker)] = std::max(ranks[at(maker)], ranks[at(id)]);
      }
    }
    return ranks;
  }

  TaskOrder run(const std::vector<double>& urgency) {
    urgency_ = urgency.data();
    schedule_ = {};
    schedule_.order.reserve(graph_.tasks.size());
    pending_ = waits_;
    compute_.assign(at(devices_), {});
    transfers_.assign(at(devices_), {});
    senders_.assign(at(devices_), {});
    collectives_.assign(graph_.member_sets.size(), {});
    sends_.assign(at(devices_), 0);
    busy_.assign(4 * at(devices_), 0);
    changed_devices_ = Changed(at(devices_));
    free_receivers_ = Changed(at(devices_));
    changed_sets_ = Changed(graph_.member_sets.size());
    begin_passes();
    for (TaskId id = 0; id < static_cast<TaskId>(graph_.tasks.size()); ++id) {
      if (pending_[at(id)] == 0) make_ready(id);
    }
    start_all(0);
    while (!events_.empty()) {
      const double now = events_.top().seconds;
      while (!events_.empty() && events_.top().seconds == now) {
        const TaskId done = events_.top().task;
        events_.pop();
        finish(done);
      }
      schedule_.seconds = now;
      start_all(now);
    }
    MOTLEY_CHECK(schedule_.order.size() == graph_.tasks.size(), "tasks wait in a circle");
    return std::move(schedule_);
  }

 private:
  struct Ready {
    double urgency;
    TaskId task;
    bool operator<(const Ready& other) const {
      return urgency != other.urgency ? urgency < other.urgency : task > other.task;
    }
  };
  struct Event {
    double seconds;
    TaskId task;
    bool operator<(const Event& other) const {
      return seconds != other.seconds ? seconds > other.seconds : task > other.task;
    }
  };
  using Queue = std::priority_queue<Ready>;
  struct Transfers {  // that are ready, from one device to another
    DeviceIndex to;
    Queue queue;
  };

  // Devices or sets of members with something new since the last look: a task that became ready, or a free stream.
  class Changed {
   public:
    explicit Changed(std::size_t size = 0) : marked_(size) {}
    void add(std::int32_t index) {
      if (marked_[at(index)]) return;
      marked_[at(index)] = 1;
      list_.push_back(index);
    }
    template <class Visit>
    void take(Visit visit) {  // ascending, then what the visits add
      while (!list_.empty()) {
        taken_.swap(list_);
        std::sort(taken_.begin(), taken_.end());
        for (std::int32_t index : taken_) {
          marked_[at(index)] = 0;
          visit(index);
        }
        taken_.clear();
      }
    }

   private:
    std::vector<char> marked_;
    std::vector<std::int32_t> list_, taken_;
  };

  char& busy(DeviceIndex device, Stream stream) { return busy_[4 * at(device) + static_cast<std::size_t>(stream)]; }

  template <class Visit>
  void each_edge(Visit visit) const {
    for (TaskId id = 0; id < static_cast<TaskId>(graph_.tasks.size()); ++id) {
      for (NodeId input : graph_.inputs_of(graph_.tasks[at(id)])) {
        if (input == kNone) continue;
        const TaskId maker = graph_.values[at(input)].maker;
        if (maker != kNone) visit(maker, id);
      }
    }
    for (const auto& [before, after] : graph_.order) visit(before, after);
  }

  void link() {
    each_edge([&](TaskId before, TaskId after) {
      ++first_[at(before) + 1];
      ++waits_[at(after)];
    });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    successors_.resize(at(first_.back()));
    std::vector<std::int32_t> next(first_.begin(), first_.end() - 1);
    each_edge([&](TaskId before, TaskId after) { successors_[at(next[at(before)]++)] = after; });
  }

  // Whose pass it waits for.
  static DeviceIndex works_on(const Task& task) {
    return task.kind == InstructionKind::kSend ? task.peer : task.device;
  }

  void make_ready(TaskId id) {
    const Task& task = graph_.tasks[at(id)];
    const Ready ready{urgency_[at(id)], id};
    if (task.pass != kNone && task.pass > pass_[at(works_on(task))]) {
      held_[at(first_pass_[at(works_on(task))] + task.pass)].push_back(ready);
    } else {
      enqueue(ready);
    }
  }

  void enqueue(const Ready& ready) {
    const Task& task = graph_.tasks[at(ready.task)];
    if (task.kind == InstructionKind::kSend) {
      transfers(task.device, task.peer).push(ready);
      ++sends_[at(task.device)];
      changed_devices_.add(task.device);
    } else if (task.kind == InstructionKind::kAllReduce) {
      collectives_[at(task.members)].push(ready);
      changed_sets_.add(task.members);
    } else {
      compute_[at(task.device)].push(ready);
      changed_devices_.add(task.device);
    }
  }

  void begin_passes() {
    if (graph_.passes.empty()) return;
    pass_.assign(at(devices_), 0);
    first_pass_.assign(at(devices_) + 1, 0);
    std::partial_sum(graph_.passes.begin(), graph_.passes.end(), first_pass_.begin() + 1);
    left_.assign(at(first_pass_.back()), 0);
    held_.assign(at(first_pass_.back()), {});
    for (const Task& task : graph_.tasks) {
      if (is_part_of_pass(task)) ++left_[at(first_pass_[at(task.device)] + task.pass)];
    }
    for (DeviceIndex device = 0; device < devices_; ++device) next_pass(device);
  }

  static bool is_part_of_pass(const Task& task) { return task.pass != kNone && task.kind != InstructionKind::kSend; }

  // Goes to the first pass of which some op has not started.
  void next_pass(DeviceIndex device) {
    const std::int32_t first = first_pass_[at(device)];
    for (std::int32_t& pass = pass_[at(device)]; pass < graph_.passes[at(device)]; ++pass) {
      for (const Ready& ready : std::exchange(held_[at(first + pass)], {})) enqueue(ready);
      if (left_[at(first + pass)] > 0) return;
    }
  }

  Queue& transfers(DeviceIndex from, DeviceIndex to) {
    for (Transfers& known : transfers_[at(from)]) {
      if (known.to == to) return known.queue;
    }
    senders_[at(to)].emplace_back(from, transfers_[at(from)].size());
    return transfers_[at(from)].emplace_back(Transfers{to, {}}).queue;
  }

  void set_busy(const Task& task, bool value) {
    if (task.kind == InstructionKind::kSend) {
      busy(task.device, Stream::kSend) = value;
      busy(task.peer, Stream::kReceive) = value;
    } else if (task.kind == InstructionKind::kAllReduce) {
      for (DeviceIndex member : graph_.member_sets[at(task.members)]) busy(member, Stream::kCollective) = value;
    } else {
      busy(task.device, Stream::kCompute) = value;
    }
  }

  // Who may use the streams that the task has left.
  void wake(const Task& task) {
    if (task.kind == InstructionKind::kAllReduce) {
      for (DeviceIndex member : graph_.member_sets[at(task.members)]) {
        for (std::int32_t set : sets_of_[at(member)]) changed_sets_.add(set);
      }
      return;
    }
    changed_devices_.add(task.device);
    if (task.kind == InstructionKind::kSend) free_receivers_.add(task.peer);
  }

  void finish(TaskId id) {
    set_busy(graph_.tasks[at(id)], false);
    wake(graph_.tasks[at(id)]);
    for (std::int32_t i = first_[at(id)]; i < first_[at(id) + 1]; ++i) {
      if (--pending_[at(successors_[at(i)])] == 0) make_ready(successors_[at(i)]);
    }
  }

  void start(Queue& queue, double now) {
    const TaskId id = queue.top().task;
    queue.pop();
    const Task& task = graph_.tasks[at(id)];
    set_busy(task, true);
    schedule_.order.push_back(id);
    if (is_part_of_pass(task) && --left_[at(first_pass_[at(task.device)] + task.pass)] == 0) next_pass(task.device);
    events_.push({now + task.seconds, id});
  }

  void start_all(double now) {
    changed_devices_.take([&](DeviceIndex device) {
      if (!busy(device, Stream::kCompute) && !compute_[at(device)].empty()) start(compute_[at(device)], now);
      if (sends_[at(device)] > 0 && !busy(device, Stream::kSend)) start_send(device, now);
    });
    free_receivers_.take([&](DeviceIndex device) {
      if (!busy(device, Stream::kReceive)) start_receive(device, now);
    });
    changed_sets_.take([&](std::int32_t set) {
      if (collectives_[at(set)].empty()) return;
      const std::vector<DeviceIndex>& members = graph_.member_sets[at(set)];
      const auto free = [&](DeviceIndex member) { return !busy(member, Stream::kCollective); };
      if (std::all_of(members.begin(), members.end(), free)) start(collectives_[at(set)], now);
    });
  }

  void start_send(DeviceIndex from, double now) {
    Queue* best = nullptr;
    for (Transfers& one : transfers_[at(from)]) {
      if (one.queue.empty() || busy(one.to, Stream::kReceive)) continue;
      if (best == nullptr || best->top() < one.queue.top()) best = &one.queue;
    }
    if (best == nullptr) return;
    --sends_[at(from)];
    start(*best, now);
  }

  void start_receive(DeviceIndex to, double now) {
    Queue* best = nullptr;
    DeviceIndex sender = kNone;
    for (const auto& [from, index] : senders_[at(to)]) {
      Queue& queue = transfers_[at(from)][index].queue;
      if (queue.empty() || busy(from, Stream::kSend)) continue;
      if (best != nullptr && !(best->top() < queue.top())) continue;
      best = &queue;
      sender = from;
    }
    if (best == nullptr) return;
    --sends_[at(sender)];
    start(*best, now);
  }

  const TaskGraph& graph_;
  DeviceIndex devices_;
  std::vector<std::int32_t> first_;  // by task: into successors_
  std::vector<TaskId> successors_;
  std::vector<std::int32_t> waits_;  // by task: how many it waits for
  const double* urgency_ = nullptr;
  TaskOrder schedule_;
  std::vector<std::int32_t> pending_;
  std::vector<std::vector<std::int32_t>> sets_of_;  // by device: sets of members that it belongs to
  std::vector<Queue> compute_;                      // by device
  std::vector<std::vector<Transfers>> transfers_;   // by sender: one for each receiver that it ever had
  std::vector<std::vector<std::pair<DeviceIndex, std::size_t>>> senders_;  // by receiver, with the place in transfers_
  std::vector<Queue> collectives_;                                         // by set of members
  std::vector<std::int32_t> pass_;                                         // by device: whose ops may start
  std::vector<std::int32_t> first_pass_;                                   // by device: into the next two
  std::vector<std::int32_t> left_;        // by device and pass: ops that have not started
  std::vector<std::vector<Ready>> held_;  // by device and pass: tasks that are ready before their pass is due
  std::vector<std::int32_t> sends_;       // by device: how many of its transfers are ready
  std::vector<char> busy_;                // by device and stream
  Changed changed_devices_, changed_sets_, free_receivers_;
  std::priority_queue<Event> events_;
};

}  // namespace

TaskOrder schedule(const TaskGraph& graph, DeviceIndex devices) {
  Scheduler scheduler(graph, devices);
  std::vector<double> position(graph.tasks.size());
  for (std::size_t i = 0; i < position.size(); ++i) position[i] = -static_cast<double>(i);
  TaskOrder plain = scheduler.run(position);
  const auto crosses = [](const Task& task) { return task.peer != kNone || task.members != kNone; };
  if (std::none_of(graph.tasks.begin(), graph.tasks.end(), crosses)) return plain;
  TaskOrder ranked = scheduler.run(scheduler.upward_ranks());
  return ranked.seconds < 0.99 * plain.seconds ? ranked : plain;
}

}  // namespace motley
