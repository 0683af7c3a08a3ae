#pragma once

// A job's last step: the deployment runs on the cluster.

#include "compiler/deployment.h"
#include "coordinator/job_context.h"

namespace motley {

// Launches one worker per program, and tells metrics, timelines, logs and saved files until the last iteration.
// `cluster` is what the deployment was compiled for: its devices stand as in context.devices. Returns what the workers
// measured. Throws Error(kUnavailable) with the last words of a worker that failed.
proto::Timeline run_deployment(const JobContext& context, const Cluster& cluster, const Deployment& deployment,
                               const std::function<void(std::int64_t)>& on_iteration);

}  // namespace motley
