#pragma once

// A job's first steps: what the devices and the links between them can do, measured where nobody has.

#include <map>
#include <string>
#include <vector>

#include "coordinator/job_context.h"
#include "profiler/profile.h"

namespace motley {

// Measures the graph's ops on the job's devices and keeps the figures in the store; what is there is not measured
// again. Devices of one machine one after the other, unless the job says side by side: they share its cores. Returns
// what each device is, by name. Throws Error(kUnavailable) with a worker's last words.
std::map<std::string, Fingerprint> profile_devices(const JobContext& context);

// What the store has of the graph's ops on any device, and which devices of it the job's are.
proto::CostsFound found_costs(const JobContext& context, const std::map<std::string, Fingerprint>& fingerprints);

// The links between the job's devices, every ordered pair; of nodes with several devices all of them. Also kept in the
// store.
std::vector<proto::LinkFigure> measure_links(const JobContext& context);

}  // namespace motley
