#pragma once

// One job from its devices to its end: profile, plan, compile, launch.

#include "coordinator/job_context.h"

namespace motley {

// Does what the job's kind asks for. Throws Error when it fails: for a plan that does not fit with the reasons, for a
// run with a worker's last words; Cancelled when it was.
void run_job(const JobContext& context, const std::function<void(std::int64_t)>& on_iteration);

}  // namespace motley
