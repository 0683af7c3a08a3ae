#include "coordinator/job.h"

#include "coordinator/planning.h"
#include "coordinator/profiling.h"
#include "coordinator/training_run.h"
#include "profiler/cost_table.h"
#include "proto/cluster_message.h"
#include "simulator/timeline.h"

namespace motley {

void run_job(const JobContext& context, const std::function<void(std::int64_t)>& on_iteration) {
  context.set_state(proto::STATE_PROFILING);
  CostTableOptions options;
  options.fingerprints = profile_devices(context);
  Cluster cluster = cluster_of_nodes(context.devices, measure_links(context));
  // What a device really is, its profile says: a quota of a control group, say.
  for (Device& device : cluster.devices) device.kind = options.fingerprints.at(device.name).kind;
  proto::JobEvent event;
  event.set_cluster(to_message(cluster).SerializeAsString());
  context.emit(event);
  if (context.spec.kind() == proto::JOB_PROFILE) {
    *event.mutable_costs() = found_costs(context, options.fingerprints);
    context.emit(std::move(event));
    return;
  }

  if (!context.spec.headroom().empty()) cluster.leave_free(parse_headroom(context.spec.headroom()));
  const CostTable costs(context.graph, cluster, &context.profiles, options);
  const Deployment deployment = make_plan(context, cluster, costs);
  if (context.spec.kind() != proto::JOB_RUN) return;
  const proto::Timeline measured = run_deployment(context, cluster, deployment, on_iteration);
  for (const auto& [device, ops] : op_times(context.graph, deployment, measured)) {
    const std::string& name = cluster.devices[static_cast<std::size_t>(device)].name;
    context.profiles.add({.fingerprint = options.fingerprints.at(name), .origin = Origin::kTimeline, .ops = ops});
  }
}

}  // namespace motley
