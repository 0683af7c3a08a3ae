#pragma once

// A worker's task from beginning to end: opens the device, meets the peers, does what is asked.

#include "agent/training.h"
#include "proto/worker.pb.h"

namespace motley {

// Tells `sink` what happens. Throws what went wrong.
void run_worker(const proto::WorkerTask& task, const EventSink& sink);

}  // namespace motley
