#include "agent/devices.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "base/control_group.h"
#include "base/error.h"
#include "profiler/catalogue.h"
#include "proto/name.h"
#include "runtime/emulation.h"

namespace motley {
namespace {

// What this process may use: the machine's memory, or its control group's when that is less.
std::int64_t usable_memory() {
  return std::min(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE), granted_memory().value);
}

// Agents that share cores have the same. A control group's part of the cores is the agent's own.
std::string machine_id(const std::string& node, int cores) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return granted_cores() < cores ? id + " " + node : id;
}

void add_cuda_devices(proto::NodeDescription& node) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return;  // no driver, no GPU
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    auto& device = *node.add_devices();
    device.set_type("cuda");
    device.set_index(i);
    device.set_memory(static_cast<std::int64_t>(properties.totalGlobalMem));
    device.set_kind(kind_of_model(properties.name, Bytes{device.memory()}));
    device.set_model(properties.name);
    device.set_driver("driver " + std::to_string(driver) + ", runtime " + std::to_string(runtime));
  }
}

}  // namespace

proto::NodeDescription describe_node(const DeviceOptions& options) {
  check_node_name(options.node);
  proto::NodeDescription node;
  const int cores = std::max(1U, std::thread::hardware_concurrency());
  node.set_cores(cores);
  node.set_machine(machine_id(options.node, cores));
  const EmulationOptions emulation =
      options.emulation.empty() ? EmulationOptions{} : parse_emulation(options.emulation);
  if (options.emulation.empty()) add_cuda_devices(node);
  const int cpu_devices = options.cpu_devices >= 0 ? options.cpu_devices : node.devices().empty() ? 1 : 0;
  for (int i = 0; i < cpu_devices; ++i) {
    auto& device = *node.add_devices();
    device.set_type("cpu");
    // A modelled device's speed is told in cores: one thread.
    device.set_threads(emulation.shapes_compute() ? 1
                       : options.threads > 0      ? options.threads
                                                  : std::max(1, cores / cpu_devices));
    device.set_kind(join_kind({"cpu", granted_share(device.threads()) * emulation.speed}));
    device.set_memory(emulation.memory.value > 0 ? emulation.memory.value : usable_memory() / cpu_devices);
    device.set_emulation(options.emulation);
  }
  if (node.devices().empty()) {
    throw Error(ErrorKind::kInvalidInput, "this node has no device: there is no GPU, and no CPU device was asked for");
  }
  for (int i = 0; i < node.devices_size(); ++i) {
    node.mutable_devices(i)->set_name(options.node + "/" + std::to_string(i));
  }
  return node;
}

}  // namespace motley
