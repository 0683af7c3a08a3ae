#include "agent/measuring.h"

#include <algorithm>
#include <vector>

#include "agent/dispatch_time.h"
#include "agent/message_pause.h"
#include "base/control_group.h"
#include "graph/serialize.h"
#include "profiler/measure.h"
#include "profiler/profile_message.h"
#include "runtime/link_probe.h"

namespace motley {
namespace {

constexpr double kUsable = 0.8;  // of a device's memory, for tensors of one op

Fingerprint fingerprint_of(const proto::DeviceDescription& device, double speed) {
  Fingerprint fingerprint = cpu_fingerprint(std::max(1, device.threads()), speed);
  if (device.type() == "cpu") return fingerprint;
  return {.kind = device.kind(), .model = device.model(), .torch = fingerprint.torch, .driver = device.driver()};
}

}  // namespace

EmulationOptions emulation_of(const proto::DeviceDescription& device) {
  return device.emulation().empty() ? EmulationOptions{} : parse_emulation(device.emulation());
}

std::optional<double> granted_share_of(const proto::DeviceDescription& device) {
  if (device.type() == "cuda" || device.threads() > 1 || emulation_of(device).shapes_compute()) return std::nullopt;
  return granted_share(1);
}

void run_profiling(const proto::DeviceDescription& device, const proto::ProfileTask& task, const EventSink& sink) {
  const Graph graph = deserialize_graph(task.graph(), "the coordinator");
  const std::string name = torch_device(device);
  MeasureOptions options;
  options.emulated_speed = emulation_of(device).speed;
  options.fingerprint = fingerprint_of(device, options.emulated_speed);
  options.batches.assign(task.request().batches().begin(), task.request().batches().end());
  options.max_batch = task.request().max_batch();
  options.budget = Seconds{task.request().budget_seconds()};
  options.memory = Bytes{static_cast<std::int64_t>(kUsable * static_cast<double>(device.memory()))};
  for (const auto& known : task.request().known()) {
    if (known.device() != options.fingerprint.device() || known.software() != options.fingerprint.software()) continue;
    for (const std::int64_t batch : known.batches()) options.known.emplace(known.signature(), batch);
  }
  SteadyPace pace(name, options.fingerprint.threads);
  options.pace = &pace;
  const auto tell = [&](const Profile& profile) {
    proto::WorkerEvent event;
    *event.mutable_profile() = to_message(profile);
    sink(event);
  };
  options.progress = [&](const MeasureProgress& progress) {
    proto::WorkerEvent event;
    event.mutable_progress()->set_done(progress.signatures_done);
    event.mutable_progress()->set_total(progress.signatures);
    event.mutable_progress()->set_what("profiling batch size " + std::to_string(progress.batch) + " (" +
                                       std::to_string(progress.batches_done + 1) + " of " +
                                       std::to_string(progress.batches) + ")");
    sink(event);
  };
  options.found = tell;
  measure(graph, name, options);
  // Afterwards, since the ops' libraries are then in memory, as they are in a process that trains.
  Profile device_costs;
  device_costs.fingerprint = options.fingerprint;
  device_costs.device = measure_device(name, options.fingerprint, options.emulated_speed, pace);
  if (const std::optional<double> share = granted_share_of(device)) {
    const Graph none;
    device_costs.device->dispatch =
        dispatch_time(*Executor::open(name, none), *share) * (pace.usual().pass / pace.now().pass);
  }
  tell(device_costs);
}

void run_link_probe(const proto::DeviceDescription& device, const proto::LinkTask& task, Communicator& communicator,
                    Communicator& control, void* scratch, const proto::Meeting& meeting, const EventSink& sink) {
  LinkProbeOptions options;
  options.largest = Bytes{task.largest_bytes()};
  options.budget = Seconds{task.budget_seconds()};
  options.timeout = Seconds{meeting.timeout_seconds()};
  const ProbedNetwork network = probe_links(communicator, control, scratch, options);
  const double speed = emulation_of(device).speed;
  const bool cpu = device.type() == "cpu";
  Profile profile;
  profile.fingerprint = fingerprint_of(device, speed);
  profile.messages = message_costs(network, communicator.rank(), cpu, profile.fingerprint.threads, speed);
  // An emulated device sleeps where a real one would compute; an accelerator leaves the cores to messages.
  if (cpu && !emulation_of(device).shapes_compute()) {
    profile.messages->pause = message_pause(profile.fingerprint.threads);
  }
  proto::WorkerEvent own;
  *own.mutable_profile() = to_message(profile);
  sink(own);
  if (communicator.rank() != 0) return;
  proto::WorkerEvent event;
  for (const ProbedLink& link : network.links) {
    auto& figure = *event.mutable_links()->add_links();
    figure.set_from(meeting.devices(link.from));
    figure.set_to(meeting.devices(link.to));
    figure.set_latency_seconds(link.latency.value);
    figure.set_bytes_per_second(link.bandwidth.value);
    figure.set_bytes_per_second_both_ways(link.bandwidth_both_ways.value);
    figure.set_bytes_per_second_all_pairs(link.bandwidth_all_pairs.value);
    for (const MessageTime& message : link.messages) {
      auto& one = *figure.add_messages();
      one.set_bytes(message.bytes.value);
      one.set_seconds(message.time.value);
      one.set_spread_seconds(message.spread.value);
    }
  }
  sink(event);
}

}  // namespace motley
