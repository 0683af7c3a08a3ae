#pragma once

// A worker's main task: runs the program of one device for as many iterations as asked.

#include <functional>
#include <string>

#include "compiler/deployment.h"
#include "proto/worker.pb.h"
#include "runtime/communicator.h"
#include "runtime/executor.h"

namespace motley {

using EventSink = std::function<void(proto::WorkerEvent)>;  // called from one thread

std::string torch_device(const proto::DeviceDescription& device);  // "cpu", "cuda:1"

// Tells `sink` of: ready, metrics per iteration, timelines, saved parts, memory.
// Throws what went wrong; the communicator is then aborted with that reason, so that the peers stop too.
void run_training(const proto::TrainTask& task, const Graph& graph, const Deployment& deployment, Executor& executor,
                  Communicator& communicator, const proto::Meeting& meeting, const proto::DeviceDescription& device,
                  const EventSink& sink);

}  // namespace motley
