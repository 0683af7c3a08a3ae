#include "coordinator/profiling.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "coordinator/worker_group.h"
#include "graph/serialize.h"
#include "profiler/profile_message.h"
#include "profiler/signature.h"

namespace motley {
namespace {

constexpr Seconds kProfileBudget{50};
constexpr double kLinkBudget = 6;
constexpr std::int64_t kLargestMessage = 16 << 20;
constexpr double kMeetingTimeout = 30;

std::string session_of(const UsedDevice& device) { return device.device.name() + "@" + device.node.session(); }

std::vector<std::string> hashes_of(const Graph& graph) {
  std::vector<std::string> hashes;
  for (const Signature& signature : signatures_of(graph).distinct) hashes.push_back(signature.hash);
  return hashes;
}

// What the store has of devices of this kind.
void add_known(const JobContext& context, const std::string& kind, proto::ProfileRequest& request) {
  for (const Profile& profile : context.profiles.profiles(kind, hashes_of(context.graph))) {
    if (profile.origin != Origin::kProfile) continue;
    for (const ProfiledOp& op : profile.ops) {
      auto& known = *request.add_known();
      known.set_device(profile.fingerprint.device());
      known.set_software(profile.fingerprint.software());
      known.set_signature(op.signature);
      for (const CurvePoint& point : op.points) known.add_batches(point.batch);
    }
  }
}

Fingerprint profile_device(const JobContext& context, const UsedDevice& used) {
  const std::string what = context.graph.fingerprint + " " + std::to_string(context.spec.batch());
  if (const auto known = context.measured.fingerprint(session_of(used), what)) return *known;
  proto::RunRequest request;
  proto::WorkerTask& task = *request.mutable_task();
  task.set_job(context.name());
  *task.mutable_device() = used.device;
  task.mutable_profile()->set_graph(context.spec.graph());
  auto& wanted = *task.mutable_profile()->mutable_request();
  wanted.set_max_batch(context.spec.batch());
  wanted.set_budget_seconds(context.spec.profile_seconds() > 0 ? context.spec.profile_seconds() : kProfileBudget.value);
  add_known(context, used.device.kind(), wanted);

  WorkerGroup group(context.launcher, context.nodes, context.stop);
  group.start(used.node, request);
  std::optional<Fingerprint> fingerprint;
  group.run([&](const proto::WorkerEvent& event) {
    if (event.has_profile()) {
      const Profile profile = from_message(event.profile());
      fingerprint = profile.fingerprint;
      context.profiles.add(profile);
      return;
    }
    proto::JobEvent told;
    *told.mutable_worker() = event;
    context.emit(std::move(told));
  });
  if (!fingerprint) throw Error(ErrorKind::kInternal, "the worker of " + used.device.name() + " measured nothing");
  context.measured.set_fingerprint(session_of(used), what, *fingerprint);
  return *fingerprint;
}

}  // namespace

std::map<std::string, Fingerprint> profile_devices(const JobContext& context) {
  std::map<std::string, std::vector<UsedDevice>> queues;  // each one after the other, all side by side
  for (const UsedDevice& used : context.devices) {
    queues[context.spec.profile_side_by_side() ? used.device.name() : used.node.machine()].push_back(used);
  }
  std::mutex mutex;
  std::map<std::string, Fingerprint> found;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    threads.reserve(queues.size());
    for (const auto& [name, queue] : queues) {
      threads.emplace_back([&, queue = &queue] {
        try {
          for (const UsedDevice& used : *queue) {
            const Fingerprint fingerprint = profile_device(context, used);
            const std::scoped_lock lock(mutex);
            found[used.device.name()] = fingerprint;
          }
        } catch (...) {
          const std::scoped_lock lock(mutex);
          if (!failure) failure = std::current_exception();
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
  return found;
}

proto::CostsFound found_costs(const JobContext& context, const std::map<std::string, Fingerprint>& fingerprints) {
  proto::CostsFound found;
  for (const auto& [device, fingerprint] : fingerprints) {
    proto::CostsFound::Device& one = *found.add_devices();
    one.set_name(device);
    *one.mutable_fingerprint() = to_message(fingerprint);
  }
  const std::vector<std::string> hashes = hashes_of(context.graph);
  for (const std::string& kind : context.profiles.kinds()) {
    for (const Profile& profile : context.profiles.profiles(kind, hashes)) *found.add_profiles() = to_message(profile);
  }
  return found;
}

std::vector<proto::LinkFigure> measure_links(const JobContext& context) {
  if (context.devices.size() < 2) return {};
  std::string devices;
  for (const UsedDevice& used : context.devices) devices += session_of(used) + " ";
  if (auto known = context.measured.links(devices)) return *known;
  const std::string prefix = context.name() + "/links/";
  context.tell_progress(0, 1, "measuring the links between " + std::to_string(context.devices.size()) + " devices");
  std::vector<proto::LinkFigure> links;
  std::map<std::string, double> overheads;  // seconds, by device
  {
    WorkerGroup group(context.launcher, context.nodes, context.stop);
    for (std::size_t rank = 0; rank < context.devices.size(); ++rank) {
      proto::RunRequest request;
      proto::WorkerTask& task = *request.mutable_task();
      task.set_job(context.name());
      *task.mutable_device() = context.devices[rank].device;
      task.mutable_links()->set_largest_bytes(kLargestMessage);
      task.mutable_links()->set_budget_seconds(kLinkBudget);
      *task.mutable_meeting() = meeting_of(context, context.devices, rank, prefix, kMeetingTimeout);
      group.start(context.devices[rank].node, request);
    }
    group.run([&](const proto::WorkerEvent& event) {
      if (event.has_links()) links.assign(event.links().links().begin(), event.links().links().end());
      if (!event.has_profile()) return;
      context.profiles.add(from_message(event.profile()));
      overheads[event.device()] = event.profile().messages().overhead_seconds();
    });
  }
  context.key_values.forget(prefix);
  std::vector<LinkSample> measurements;
  for (proto::LinkFigure& link : links) {
    // Of the latency that was measured the ends' overheads are the devices' costs.
    link.set_latency_seconds(link.latency_seconds() - overheads[link.from()] - overheads[link.to()]);
    for (const auto& message : link.messages()) {
      measurements.push_back({.from = link.from(),
                              .to = link.to(),
                              .bytes = Bytes{message.bytes()},
                              .time = Seconds{message.seconds()},
                              .spread = Seconds{message.spread_seconds()},
                              .repeats = 1});
    }
  }
  context.profiles.add(measurements);
  context.measured.set_links(devices, links);
  context.tell_progress(1, 1, "measured " + std::to_string(links.size()) + " links");
  return links;
}

}  // namespace motley
