#pragma once

// What a deployment does, in numbers for people: what it sends of what kind, and what each device has to do.

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/deployment.h"

namespace motley {

struct DeploymentSummary {
  struct Device {
    DeviceIndex device = 0;
    std::int64_t instructions = 0;
    std::int64_t ops = 0;  // of these, kCompute
    Bytes sent;            // messages; collectives apart
    Bytes received;
    Bytes reduced;  // what it brings to collectives
  };
  std::vector<Device> devices;  // one per program
  std::int64_t messages = 0;
  Bytes activations;           // messages of the forward pass
  Bytes activation_gradients;  // ... of the backward pass
  Bytes parameter_gradients;   // ... to parameter servers
  Bytes parameters;            // ... back from them
  std::int64_t collectives = 0;
  Bytes reduced_gradients;  // per member, of parameters
  Bytes reduced_values;     // per member, of values made whole and their gradients
};
DeploymentSummary summarize(const Deployment& deployment, const Graph& graph);

// Some lines: the totals that are not 0, then one line per device.
std::string describe(const Deployment& deployment, const Graph& graph, const Cluster& cluster);

}  // namespace motley
