#pragma once

// What a worker's process holds in host memory beside its device's tensors. On a CPU that is the device's memory.

#include "compiler/deployment.h"

namespace motley {

struct ProcessBuffers {
  Bytes inputs;      // loaded for the next iteration while one runs (agent/training.cc)
  Bytes collective;  // Gloo's own, of the all-reduce that has most (runtime/gloo_scratch.h); one runs at a time
};
ProcessBuffers process_buffers(const Graph& graph, const Deployment& deployment, const Program& program);

}  // namespace motley
