#pragma once

// A job's strategy: the one it names, the one it brings, or the best that a search finds.

#include "base/error.h"
#include "compiler/deployment.h"
#include "coordinator/job_context.h"
#include "profiler/cost_model.h"

namespace motley {

// How a job ends whose plan is not feasible: with the reasons.
class NothingFits : public Error {
 public:
  explicit NothingFits(const std::string& why) : Error(ErrorKind::kInvalidInput, why) {}
};

// Tells the plan (JobEvent::plan). Throws NothingFits; Error(kInvalidInput) when the job's plan is of another model or
// cluster; Cancelled.
Deployment make_plan(const JobContext& context, const Cluster& cluster, const CostModel& costs);

}  // namespace motley
