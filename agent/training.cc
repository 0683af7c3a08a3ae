#include "agent/training.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include "agent/collective_groups.h"
#include "agent/data.h"
#include "agent/measuring.h"
#include "agent/model_state.h"
#include "agent/program_runner.h"
#include "base/error.h"
#include "runtime/preflight.h"

namespace motley {
namespace {

const Program& program_of(const Deployment& deployment, DeviceIndex device) {
  for (const Program& program : deployment.programs) {
    if (program.device == device) return program;
  }
  throw Error(ErrorKind::kInternal, "the deployment has no program for device " + std::to_string(device));
}

// The inputs of a program for an iteration, loaded by another thread while the one before it runs. Host memory holds
// those of one iteration at a time.
class InputLoader {
 public:
  InputLoader(const Graph& graph, const Program& program, Dataset& data, Executor& executor)
      : program_(program), data_(data), executor_(executor) {
    for (const ValueId value : program.inputs) {
      const Value& description = program.values[value];
      const Tensor& tensor = graph.tensors[description.tensor];
      Input& input = inputs_.emplace_back();
      input.place = static_cast<std::size_t>(std::find(graph.inputs.begin(), graph.inputs.end(), description.tensor) -
                                             graph.inputs.begin());
      input.dtype = tensor.dtype;
      for (const BatchExpr& size : tensor.shape) input.sizes.push_back(size.at(description.end - description.begin));
    }
  }

  // Of iterations one after the other.
  std::vector<TensorHandle> take(std::int64_t iteration, bool more) {
    std::vector<TensorHandle> inputs;
    {
      const std::vector<HostTensor> loaded = next_.valid() ? next_.get() : load(iteration);
      for (const HostTensor& input : loaded) inputs.push_back(executor_.from_host(input.view()));
    }
    if (more) next_ = std::async(std::launch::async, [this, iteration] { return load(iteration + 1); });
    return inputs;
  }

 private:
  struct Input {
    std::size_t place;  // among the model's inputs
    DType dtype;
    std::vector<std::int64_t> sizes;
  };
  std::vector<HostTensor> load(std::int64_t iteration) {
    std::vector<HostTensor> result;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Value& value = program_.values[program_.inputs[i]];
      HostTensor& tensor = result.emplace_back(make_host_tensor(inputs_[i].dtype, inputs_[i].sizes));
      data_.read(inputs_[i].place, iteration, value.begin, value.end, tensor.bytes);
    }
    return result;
  }

  const Program& program_;
  Dataset& data_;
  Executor& executor_;
  std::vector<Input> inputs_;
  std::future<std::vector<HostTensor>> next_;
};

// From CLOCK_MONOTONIC to the UNIX epoch.
double epoch_offset(EmulationClock& clock) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - clock.now().value;
}

proto::WorkerEvent timeline_event(std::int64_t iteration, const std::vector<MeasuredEvent>& events, double offset) {
  proto::WorkerEvent event;
  auto& timeline = *event.mutable_timeline();
  timeline.set_iteration(iteration);
  for (const MeasuredEvent& measured : events) {
    auto& one = *timeline.add_events();
    one.set_instruction(measured.instruction);
    one.set_start(measured.start.value + offset);
    one.set_end(measured.end.value + offset);
    one.set_work(measured.work.value);
  }
  return event;
}

proto::WorkerEvent memory_event(const Executor& executor) {
  const DeviceMemoryUse use = executor.memory();
  proto::WorkerEvent event;
  event.mutable_memory()->set_device_peak(executor.device_peak().value);
  event.mutable_memory()->set_allocated_peak(use.peak.value);
  event.mutable_memory()->set_reserved_peak(use.reserved_peak.value);
  return event;
}

}  // namespace

std::string torch_device(const proto::DeviceDescription& device) {
  return device.type() == "cuda" ? "cuda:" + std::to_string(device.index()) : "cpu";
}

void run_training(const proto::TrainTask& task, const Graph& graph, const Deployment& deployment, Executor& executor,
                  Communicator& communicator, const proto::Meeting& meeting, const proto::DeviceDescription& device,
                  const EventSink& sink) {
  try {
    const Program& program = program_of(deployment, task.device());
    Dataset data(task.data(), graph, deployment.batch, task.seed());
    ModelState state(graph, program, executor);
    state.load_model(task.model());
    if (!task.checkpoint().empty()) state.load_checkpoint(task.checkpoint());
    const auto mine = saved_by(graph, deployment, task.device());

    RunnerOptions options;
    for (int rank = 0; rank < task.device_of_rank_size(); ++rank) {
      const auto device = static_cast<std::size_t>(task.device_of_rank(rank));
      options.rank_of_device.resize(std::max(options.rank_of_device.size(), device + 1), -1);
      options.rank_of_device[device] = rank;
    }
    const Seconds timeout{meeting.timeout_seconds()};
    options.groups = make_groups(deployment, task.device(), options.rank_of_device, communicator, timeout);
    std::vector<RankGroup> tried{kAllRanks};
    for (const RankGroup group : options.groups) {
      if (group != kNone && std::find(tried.begin(), tried.end(), group) == tried.end()) tried.push_back(group);
    }
    if (communicator.size() > 1) {
      const TensorHandle scratch = executor.flat(DType::kFloat32, communicator.size() + 1);
      preflight(communicator, tried, data_pointer(scratch), timeout);
    }
    options.message_timeout = Seconds{task.message_timeout_seconds()};
    if (const EmulationOptions emulation = emulation_of(device); emulation.shapes_compute()) {
      options.emulated_speed = emulation.speed;
    }
    options.granted_share = granted_share_of(device);
    ProgramRunner runner(graph, program, executor, communicator, state.handles(), options);
    communicator.barrier(kAllRanks, timeout);
    proto::WorkerEvent ready;
    ready.mutable_ready();
    sink(ready);

    const auto save = [&](std::int64_t iteration, bool final) {
      const std::string name = (final ? "weights" : "step-" + std::to_string(iteration)) + "." +
                               std::to_string(communicator.rank()) + ".part";
      const auto path = std::filesystem::path(task.output()) / name;
      state.save(path, mine, !final);
      proto::WorkerEvent event;
      event.mutable_saved()->set_path(path.string());
      event.mutable_saved()->set_iteration(iteration);
      event.mutable_saved()->set_final(final);
      sink(event);
    };

    const auto clock = make_real_clock();
    const double offset = epoch_offset(*clock);
    InputLoader loader(graph, program, data, executor);
    Seconds before = clock->now();
    for (std::int64_t iteration = task.first_iteration(); iteration < task.iterations(); ++iteration) {
      std::vector<TensorHandle> inputs = loader.take(iteration, iteration + 1 < task.iterations());
      const auto& measured = task.timeline_iterations();
      const bool measure = std::find(measured.begin(), measured.end(), iteration) != measured.end();
      const IterationResult result = runner.run(std::move(inputs), measure);
      const Seconds now = clock->now();
      proto::WorkerEvent event;
      event.mutable_metrics()->set_iteration(iteration);
      event.mutable_metrics()->set_has_loss(result.loss.has_value());
      event.mutable_metrics()->set_loss(result.loss.value_or(0));
      event.mutable_metrics()->set_seconds((now - before).value);
      sink(event);
      before = now;
      if (measure) sink(timeline_event(iteration, result.events, offset));
      const std::int64_t done = iteration + 1;
      if (task.checkpoint_every() > 0 && done % task.checkpoint_every() == 0) {
        save(done, false);
        before = clock->now();
      }
    }
    if (task.save_weights()) save(task.iterations(), true);
    sink(memory_event(executor));
    // Nobody leaves while a peer may still read from it.
    communicator.barrier(kAllRanks, options.message_timeout);
  } catch (const std::exception& error) {
    communicator.abort(error.what());
    throw;
  }
}

}  // namespace motley
