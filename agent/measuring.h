#pragma once

// A worker's other tasks: what its device and its links can do.

#include <optional>

#include "agent/training.h"
#include "proto/worker.pb.h"
#include "runtime/communicator.h"
#include "runtime/emulation.h"

namespace motley {

EmulationOptions emulation_of(const proto::DeviceDescription& device);  // none: as it is

// Of a core, that a control group grants to a CPU device of one thread; nothing for other and for emulated devices.
// Work on such a device is told by its thread's time over this.
std::optional<double> granted_share_of(const proto::DeviceDescription& device);

// Tells `sink` of progress and of profiles as they are measured. Throws what measure() throws.
void run_profiling(const proto::DeviceDescription& device, const proto::ProfileTask& task, const EventSink& sink);

// Called by all ranks. Each tells `sink` what messages cost it, as a profile; rank 0 tells of all links. `control` and
// `scratch` as probe_links wants them.
void run_link_probe(const proto::DeviceDescription& device, const proto::LinkTask& task, Communicator& communicator,
                    Communicator& control, void* scratch, const proto::Meeting& meeting, const EventSink& sink);

}  // namespace motley
