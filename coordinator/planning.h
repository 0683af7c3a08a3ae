#pragma once

// A job's strategy: the one it names, the one it brings, or the best that a search finds.

#include "compiler/deployment.h"
#include "coordinator/job_context.h"
#include "profiler/cost_model.h"

namespace motley {

// Tells the plan (JobEvent::plan). Throws Error(kInvalidInput) with the reasons when it does not fit, or when the job's
// plan is of another model or cluster; Cancelled.
Deployment make_plan(const JobContext& context, const Cluster& cluster, const CostModel& costs);

}  // namespace motley
