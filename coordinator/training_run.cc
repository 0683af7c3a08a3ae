#include "coordinator/training_run.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "agent/checkpoint.h"
#include "base/file.h"
#include "compiler/serialize.h"
#include "coordinator/worker_group.h"
#include "simulator/timeline.h"

namespace motley {
namespace {

constexpr double kMessageTimeout = 600;
constexpr double kPreflightTimeout = 30;

// Puts together what the workers tell of the same iteration.
class Collector {
 public:
  Collector(const JobContext& context, const Cluster& cluster, const Deployment& deployment,
            std::function<void(std::int64_t)> on_iteration)
      : context_(context), cluster_(cluster), deployment_(deployment), on_iteration_(std::move(on_iteration)) {}

  void take(const proto::WorkerEvent& event) {
    switch (event.event_case()) {
      case proto::WorkerEvent::kReady:
        if (++ready_ == deployment_.programs.size()) context_.set_state(proto::STATE_RUNNING);
        break;
      case proto::WorkerEvent::kMetrics:
        take_metrics(event.metrics());
        break;
      case proto::WorkerEvent::kTimeline:
        take_timeline(event);
        break;
      case proto::WorkerEvent::kSaved:
        take_saved(event);
        break;
      default: {
        proto::JobEvent told;
        *told.mutable_worker() = event;
        context_.emit(std::move(told));
      }
    }
  }

  // Of all devices, an iteration each.
  const std::vector<proto::Timeline>& measured() const { return measured_; }

 private:
  void take_metrics(const proto::Metrics& metrics) {
    auto& [count, whole] = metrics_[metrics.iteration()];
    whole.set_iteration(metrics.iteration());
    whole.set_loss(whole.loss() + metrics.loss());
    whole.set_seconds(std::max(whole.seconds(), metrics.seconds()));
    if (++count < deployment_.programs.size()) return;
    proto::JobEvent event;
    *event.mutable_metrics() = whole;
    metrics_.erase(metrics.iteration());
    context_.emit(std::move(event));
    on_iteration_(metrics.iteration() + 1);
  }

  void take_timeline(const proto::WorkerEvent& event) {
    auto& [count, whole] = timelines_[event.timeline().iteration()];
    const DeviceIndex device = cluster_.device_named(event.device());
    for (const auto& measured : event.timeline().events()) {
      auto& one = *whole.add_events();
      one.set_device(device);
      one.set_instruction(measured.instruction());
      one.set_iteration(static_cast<std::int32_t>(event.timeline().iteration()));
      one.set_start(measured.start());
      one.set_end(measured.end());
      one.set_work(measured.work());
    }
    if (++count < deployment_.programs.size()) return;
    double origin = std::numeric_limits<double>::infinity();
    for (const auto& one : whole.events()) origin = std::min(origin, one.start());
    for (auto& one : *whole.mutable_events()) {
      one.set_start(one.start() - origin);
      one.set_end(one.end() - origin);
    }
    whole.set_graph_fingerprint(deployment_.graph_fingerprint);
    whole.set_strategy(deployment_.strategy_name);
    whole.set_batch(deployment_.batch);
    measured_.push_back(whole);
    proto::JobEvent told;
    *told.mutable_timeline() = std::move(whole);
    timelines_.erase(event.timeline().iteration());
    context_.emit(std::move(told));
  }

  // Fetches a device's part; joins the parts when all are here.
  void take_saved(const proto::WorkerEvent& event) {
    const std::filesystem::path folder = context_.spec.output();
    const std::string name = event.saved().final() ? "weights" : "step-" + std::to_string(event.saved().iteration());
    const auto used = std::find_if(context_.devices.begin(), context_.devices.end(),
                                   [&](const UsedDevice& one) { return one.device.name() == event.device(); });
    const auto whole = folder / (name + ".safetensors");
    auto& parts = parts_[name];
    HalfFile& part = parts.emplace_back(whole);
    try {
      context_.launcher.take_file(used->node, event.saved().path(), [&](std::string_view data) {
        if (context_.stop.stop_requested()) throw Cancelled();
        part.write(data);
      });
    } catch (const AgentLost&) {
      context_.nodes.lose(used->node.name());
      throw;
    }
    if (parts.size() < deployment_.programs.size()) return;
    std::vector<std::filesystem::path> paths;
    for (const HalfFile& done : parts) paths.push_back(done.path());
    join_parts(paths, whole, event.saved().iteration(), deployment_.graph_fingerprint);
    parts_.erase(name);
    proto::JobEvent told;
    told.set_saved(whole.string());
    context_.emit(std::move(told));
  }

  const JobContext& context_;
  const Cluster& cluster_;
  const Deployment& deployment_;
  std::function<void(std::int64_t)> on_iteration_;
  std::size_t ready_ = 0;
  std::map<std::int64_t, std::pair<std::size_t, proto::IterationMetrics>> metrics_;
  std::map<std::int64_t, std::pair<std::size_t, proto::Timeline>> timelines_;
  std::vector<proto::Timeline> measured_;
  std::map<std::string, std::vector<HalfFile>> parts_;  // never whole by themselves
};

proto::TrainTask train_task(const JobContext& context, const Deployment& deployment) {
  const proto::JobSpec& spec = context.spec;
  proto::TrainTask train;
  train.set_graph(spec.graph());
  train.set_deployment(serialize(deployment));
  train.set_data(spec.data());
  train.set_seed(spec.seed());
  train.set_first_iteration(spec.first_iteration());
  train.set_iterations(spec.first_iteration() + spec.iterations());
  if (!spec.output().empty()) train.set_checkpoint_every(spec.checkpoint_every());
  train.set_save_weights(!spec.output().empty());
  *train.mutable_timeline_iterations() = spec.timeline_iterations();
  train.set_message_timeout_seconds(spec.message_timeout_seconds() > 0 ? spec.message_timeout_seconds()
                                                                       : kMessageTimeout);
  for (const Program& program : deployment.programs) train.add_device_of_rank(program.device);
  return train;
}

}  // namespace

proto::Timeline run_deployment(const JobContext& context, const Cluster& cluster, const Deployment& deployment,
                               const std::function<void(std::int64_t)>& on_iteration) {
  context.set_state(proto::STATE_LAUNCHING);
  if (!context.spec.output().empty()) make_output_folder(context.spec.output());
  const std::string prefix = context.name() + "/train/";
  proto::TrainTask train = train_task(context, deployment);
  std::vector<UsedDevice> ranks;
  for (const Program& program : deployment.programs) {
    ranks.push_back(context.devices[static_cast<std::size_t>(program.device)]);
    if (ranks.back().device.type() == ranks.front().device.type()) continue;
    throw Error(ErrorKind::kUnsupported, "CPU and GPU devices cannot train together: " + ranks.front().device.name() +
                                             " and " + ranks.back().device.name() + "; name devices of one sort");
  }
  const double timeout =
      context.spec.preflight_timeout_seconds() > 0 ? context.spec.preflight_timeout_seconds() : kPreflightTimeout;
  Collector collector(context, cluster, deployment, on_iteration);
  {
    WorkerGroup group(context.launcher, context.nodes, context.stop);
    for (std::size_t rank = 0; rank < deployment.programs.size(); ++rank) {
      proto::RunRequest request;
      request.set_model_hash(context.spec.model_hash());
      request.set_checkpoint_hash(context.spec.checkpoint_hash());
      proto::WorkerTask& task = *request.mutable_task();
      task.set_job(context.name());
      *task.mutable_device() = ranks[rank].device;
      *task.mutable_meeting() = meeting_of(context, ranks, rank, prefix, timeout);
      train.set_device(deployment.programs[rank].device);
      *task.mutable_train() = train;
      group.start(ranks[rank].node, request);
    }
    group.run([&](const proto::WorkerEvent& event) { collector.take(event); });
  }
  context.key_values.forget(prefix);
  return merge(collector.measured());
}

}  // namespace motley
