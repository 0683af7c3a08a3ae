#include "agent/worker.h"

#include "agent/grpc_store.h"
#include "agent/measuring.h"
#include "base/error.h"
#include "compiler/serialize.h"
#include "graph/serialize.h"
#include "runtime/emulated_communicator.h"
#include "runtime/gloo_communicator.h"
#include "runtime/nccl_communicator.h"

namespace motley {
namespace {

Rendezvous rendezvous_of(const proto::Meeting& meeting, const std::string& part) {
  Rendezvous rendezvous;
  rendezvous.store = make_grpc_store(meeting.store(), meeting.prefix() + part);
  rendezvous.rank = meeting.rank();
  rendezvous.size = meeting.devices_size();
  rendezvous.address = meeting.address();
  rendezvous.names.assign(meeting.devices().begin(), meeting.devices().end());
  rendezvous.timeout = Seconds{meeting.timeout_seconds()};
  return rendezvous;
}

// Between the devices' memories.
std::unique_ptr<Communicator> connect(const proto::WorkerTask& task) {
  const Rendezvous rendezvous = rendezvous_of(task.meeting(), "");
  if (task.meeting().cuda()) return make_nccl_communicator(rendezvous, task.device().index());
  auto communicator = make_gloo_communicator(rendezvous);
  // When one port is shaped all are: each tells the others how.
  if (!task.meeting().emulated()) return communicator;
  return make_emulated_communicator(std::move(communicator), emulation_of(task.device()), make_real_clock(),
                                    rendezvous.timeout);
}

void train(const proto::WorkerTask& task, const EventSink& sink) {
  const Graph graph = deserialize_graph(task.train().graph(), "the coordinator");
  const Deployment deployment = deserialize_deployment(task.train().deployment(), "the coordinator");
  ExecutorOptions options;
  options.threads = std::max(1, task.device().threads());
  options.seed = task.train().seed() + static_cast<std::uint64_t>(task.meeting().rank());
  const auto executor = Executor::open(torch_device(task.device()), graph, options);
  const auto communicator = connect(task);
  run_training(task.train(), graph, deployment, *executor, *communicator, task.meeting(), task.device(), sink);
}

void probe(const proto::WorkerTask& task, const EventSink& sink) {
  const auto communicator = connect(task);
  if (!task.meeting().cuda()) {
    std::vector<std::byte> scratch(2 * static_cast<std::size_t>(task.links().largest_bytes()));
    return run_link_probe(task.device(), task.links(), *communicator, *communicator, scratch.data(), task.meeting(),
                          sink);
  }
  const auto control = make_gloo_communicator(rendezvous_of(task.meeting(), "control/"));
  const Graph nothing;
  const auto executor = Executor::open(torch_device(task.device()), nothing);
  const TensorHandle scratch = executor->flat(DType::kUInt8, 2 * task.links().largest_bytes());
  run_link_probe(task.device(), task.links(), *communicator, *control, data_pointer(scratch), task.meeting(), sink);
}

}  // namespace

void run_worker(const proto::WorkerTask& task, const EventSink& sink) {
  switch (task.task_case()) {
    case proto::WorkerTask::kTrain:
      return train(task, sink);
    case proto::WorkerTask::kProfile:
      return run_profiling(task.device(), task.profile(), sink);
    case proto::WorkerTask::kLinks:
      return probe(task, sink);
    default:
      throw Error(ErrorKind::kUnsupported, "a task that this worker does not know: agent and worker differ in version");
  }
}

}  // namespace motley
