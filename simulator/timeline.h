#pragma once

// Measured timelines (proto/timeline.proto), in the simulator's terms, so that a prediction and a measurement can be
// compared instruction by instruction.

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/deployment.h"
#include "profiler/profile.h"
#include "proto/timeline.pb.h"
#include "simulator/simulator.h"

namespace motley {

// The parts that the workers of one job measured, as one: by iteration, start, device, instruction. Throws
// Error(kInvalidInput) when they come from different deployments, or when two hold the same event.
proto::Timeline merge(const std::vector<proto::Timeline>& parts);

// The iteration whose duration (the latest end on any device) is the median; of two middle ones the shorter. The first
// iteration, which pays for warm-up, counts only when it is the only one. Throws Error(kInvalidInput) when `timeline`
// is empty.
std::int32_t typical_iteration(const proto::Timeline& timeline);

// One iteration's events, by start, then device, then instruction.
std::vector<Event> events_of(const proto::Timeline& timeline, std::int32_t iteration);

// What the ops of each device took in the runs that `measured` holds, for the profile store (Origin::kTimeline): per
// signature and batch the mean over all such instructions and iterations, of TimelineEvent::work where it is known.
// Else of their durations, but for instructions beside which the device sent, received or all-reduced: a profile is of
// a device that does nothing else. By device. Throws Error(kInvalidInput) when an event is of an instruction that
// `deployment` lacks.
std::map<DeviceIndex, std::vector<ProfiledOp>> op_times(const Graph& graph, const Deployment& deployment,
                                                        const proto::Timeline& measured);

}  // namespace motley
