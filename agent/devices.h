#pragma once

// What a node has.

#include <string>

#include "proto/worker.pb.h"

namespace motley {

struct DeviceOptions {
  std::string node;       // its name
  int cpu_devices = -1;   // how many CPU devices; -1: one when there is no GPU, else none
  int threads = 0;        // of each CPU device; 0: the machine's cores, shared evenly
  std::string emulation;  // of all CPU devices (runtime/emulation.h); empty: real ones
};

// Devices in the order CUDA devices, CPU devices; cores, machine. Name and address are the caller's to fill in. Throws
// Error(kInvalidInput) for an emulation that cannot be parsed or is no CPU device's, or when there is no device.
proto::NodeDescription describe_node(const DeviceOptions& options);

}  // namespace motley
