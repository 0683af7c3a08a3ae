#pragma once

// Runs one device's program on its executor and communicator, as compiler/deployment.h says: compute in program order
// on the calling thread; sends, receives and collectives on a thread each, beside it. A send or a collective starts
// when its inputs are there and its stream is free; receives are posted ahead, a few at a time. A value is dropped
// after the last instruction that uses it.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "agent/ordered_queue.h"
#include "agent/program_plan.h"
#include "compiler/deployment.h"
#include "runtime/communicator.h"
#include "runtime/emulation.h"
#include "runtime/executor.h"

namespace motley {

struct RunnerOptions {
  std::vector<int> rank_of_device;  // by DeviceIndex; -1: takes no part
  std::vector<RankGroup> groups;    // by CollectiveId, those of this device
  Seconds message_timeout{600};
  std::optional<double> emulated_speed;  // of a modelled device
  // Of a core, that a control group grants to a CPU device of one thread: tells MeasuredEvent::work.
  std::optional<double> granted_share;
};

// An instruction as it ran, by CLOCK_MONOTONIC.
struct MeasuredEvent {
  std::int32_t instruction = 0;
  Seconds start;
  Seconds end;
  // What it took of the device, without pauses and without the communication beside it; 0: not known.
  Seconds work;
};

struct IterationResult {
  std::optional<double> loss;  // this device's part, weighted
  Seconds time;
  std::vector<MeasuredEvent> events;  // when asked for, in no order
};

class ProgramRunner {
 public:
  // All arguments outlive the runner. `state` holds every persistent value of the program by ValueId (null elsewhere)
  // and is changed by run().
  ProgramRunner(const Graph& graph, const Program& program, Executor& executor, Communicator& communicator,
                std::vector<TensorHandle>& state, RunnerOptions options);
  ~ProgramRunner();

  // One iteration. `inputs` as in Program::inputs. Whatever fails aborts the communicator with the reason and is
  // thrown; the runner is of no use afterwards.
  IterationResult run(std::vector<TensorHandle> inputs, bool measure);

 private:
  struct SendJob {
    std::int32_t instruction;
    TensorHandle tensor;
    EventHandle ready;
  };
  struct ReceiveJob {
    std::int32_t instruction;
    TensorHandle tensor;
    std::unique_ptr<Pending> pending;
  };
  struct CollectiveJob {
    std::int32_t instruction;
    TensorHandle tensor;
    EventHandle ready;
  };

  // On the calling thread.
  void start(std::vector<TensorHandle> inputs);
  void compute(std::int32_t id);
  std::vector<TensorHandle> execute(std::int32_t id);
  void service();  // what other threads have finished; posts receives
  void wait_for(ValueId value);
  void available(ValueId value);  // it is there: messages that take it may be complete
  void prepare(std::int32_t id);
  void prepare_collective(std::int32_t id);
  void post_receives();
  void finish(std::int32_t id);  // drops what it used last
  const TensorHandle& held(ValueId value) const;
  TensorHandle take(ValueId value);  // handed over when this is its last use
  void drop_use(ValueId value);
  [[noreturn]] void fail();

  // On the other threads.
  void run_sends();
  void run_receives();
  void run_collectives();
  void done(std::int32_t instruction, Seconds start);
  void failed(const std::exception_ptr& error);

  const Graph& graph_;
  const Program& program_;
  const ProgramPlan plan_;
  Executor& executor_;
  Communicator& communicator_;
  std::vector<TensorHandle>& state_;
  const RunnerOptions options_;
  std::shared_ptr<EmulationClock> clock_;
  std::optional<ComputePacer> pacer_;
  const bool on_accelerator_;

  // The calling thread's alone.
  std::vector<TensorHandle> slots_;  // by ValueId; state stands in state_
  std::vector<std::int32_t> uses_;   // left
  std::vector<char> available_;
  std::vector<Seconds> arrived_;              // values from elsewhere
  std::vector<std::int32_t> missing_;         // by instruction: inputs that a message waits for
  std::vector<TensorHandle> received_state_;  // by ValueId: takes its place when the iteration ends
  std::size_t posted_ = 0;                    // receives
  std::size_t received_ = 0;
  std::size_t messages_left_ = 0;  // of all kinds
  bool measure_ = false;
  std::vector<MeasuredEvent> events_;
  struct QueuedEvent {
    std::int32_t instruction;
    EventHandle start;
    EventHandle end;
  };
  std::vector<QueuedEvent> queued_events_;  // on an accelerator: read when the iteration has ended

  // Shared with the other threads.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<MeasuredEvent> finished_;
  std::exception_ptr error_;
  std::atomic<bool> news_{false};  // finished_ or error_ is not empty
  OrderedQueue<SendJob> sends_;
  OrderedQueue<ReceiveJob> receives_;
  OrderedQueue<CollectiveJob> collectives_;
  std::vector<std::thread> threads_;
};

}  // namespace motley
