#include "simulator/simulator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "simulator/engine.h"
#include "simulator/process_buffers.h"

namespace motley {

namespace {

constexpr std::size_t kLiveValues = 10;

std::string name_of(const Graph& graph, const Storage& storage) {
  switch (storage.kind) {
    case Storage::Kind::kValue:
      return graph.tensors[storage.tensor].name;
    case Storage::Kind::kKept:
      return graph.ops[storage.op].name + " (kept for backward)";
    case Storage::Kind::kWorkspace:
      return graph.ops[storage.op].name + " (workspace)";
    case Storage::Kind::kReceived:
      return graph.tensors[storage.tensor].name + " (received)";
    case Storage::Kind::kBucket:
      break;
  }
  return "a bucket of gradients";
}

// What a device's memory holds as long as the process is there.
MemoryByUse beside_allocator(const Graph& graph, const CostModel& costs, const Deployment& deployment,
                             const Program& program) {
  MemoryByUse uses;
  uses[MemoryUse::kContext] = costs.context(program.device);
  if (costs.allocator(program.device) == AllocatorKind::kCpu) {
    const ProcessBuffers buffers = process_buffers(graph, deployment, program);
    uses[MemoryUse::kInputs] = buffers.inputs;
    uses[MemoryUse::kCommunication] = buffers.collective;
  }
  return uses;
}

// What fills a device at its peak: `beside` the allocator, and `live` at the peak of what was asked of it.
MemoryByUse by_use(const Graph& graph, const MemoryLayout& layout, const MemoryByUse& beside,
                   const std::vector<std::int32_t>& live, Bytes peak) {
  MemoryByUse uses = beside;
  for (std::int32_t s : live) uses[use_of(graph, layout.storages[s])] += Bytes(layout.storages[s].bytes);
  uses[MemoryUse::kAllocator] = peak - uses.sum();
  return uses;
}

std::string reason_of(const Cluster& cluster, const DeviceMemory& memory) {
  std::string text =
      cluster.devices[memory.device].name + " needs " + to_string(memory.peak) + " of " + to_string(memory.capacity);
  if (memory.headroom > Bytes(0)) text += " less " + to_string(memory.headroom) + " of headroom";
  text += " (" + to_string(memory.lacking()) + " over): ";
  auto uses = kMemoryUses;
  std::ranges::stable_sort(uses, std::greater<>(), [&](MemoryUse use) { return memory.uses[use]; });
  for (std::size_t i = 0; i < uses.size() && memory.uses[uses[i]] > Bytes(0); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(memory.uses[uses[i]]) + " " + to_string(uses[i]);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(3, memory.live_at_peak.size()); ++i) {
    text += (i == 0 ? "; the largest are " : ", ") + memory.live_at_peak[i].tensor + " (" +
            to_string(memory.live_at_peak[i].bytes) + ")";
  }
  return text;
}

struct AllocatorUse {  // at the peaks
  Bytes allocated;
  Bytes reserved;
};

// Devices, twins among them, ascending, with the places of their programs.
std::vector<std::pair<DeviceIndex, std::int32_t>> by_device(const Deployment& deployment) {
  std::vector<std::pair<DeviceIndex, std::int32_t>> devices;
  for (std::size_t p = 0; p < deployment.programs.size(); ++p) {
    devices.emplace_back(deployment.programs[p].device, p);
    for (DeviceIndex twin : deployment.programs[p].twins) devices.emplace_back(twin, p);
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace

SimulationResult simulate(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                          const Deployment& deployment, const SimulationOptions& options) {
  const FlatDeployment flat(graph, cluster, costs, deployment);
  std::vector<MemoryByUse> beside;  // the allocator, by program
  std::vector<Bytes> fixed;         // ... in all
  for (const Program& program : deployment.programs) {
    beside.push_back(beside_allocator(graph, costs, deployment, program));
    fixed.push_back(beside.back().sum());
  }
  const MemoryLayout layout(graph, deployment, flat);
  MemoryLedger ledger(layout, flat, fixed);
  Engine engine(cluster, flat, ledger);

  SimulationResult result;
  if (options.keep_events) {
    std::vector<std::int64_t> last(deployment.programs.size(), -1);
    engine.on_memory = [&, last](std::int32_t program, double time) mutable {
      const std::int64_t live = ledger.live(program);
      if (live == last[program]) return;
      last[program] = live;
      result.memory_samples.push_back({deployment.programs[program].device, Seconds(time), Bytes(live)});
    };
  }
  engine.run();

  result.iteration = Seconds(engine.end());
  for (ChannelIndex channel = 0; channel < cluster.channel_count(); ++channel) {
    result.channel_bytes.push_back(Bytes(std::llround(engine.network().carried(channel))));
  }
  if (flat.op_seconds > 0) result.estimated_share = flat.estimated_op_seconds / flat.op_seconds;

  const std::vector<std::vector<std::int32_t>> live = ledger.live_at_peak();
  std::vector<AllocatorUse> held;
  Replay replay(layout);
  for (std::size_t p = 0; p < deployment.programs.size(); ++p) {
    const DeviceIndex device = deployment.programs[p].device;
    const Bytes capacity = cluster.devices[device].memory;
    const auto program = static_cast<std::int32_t>(p);
    const bool exact = options.exact_memory || 2 * ledger.peak(program) > cluster.devices[device].usable().value;
    const auto allocator = exact ? make_allocator_model(costs.allocator(device), capacity - fixed[p]) : nullptr;
    if (allocator == nullptr) {
      held.push_back({Bytes(ledger.peak(program)) - fixed[p], Bytes(ledger.peak(program)) - fixed[p]});
    } else {
      replay.run(ledger.requests(program), *allocator);
      held.push_back({allocator->allocated_peak(), allocator->reserved_peak()});
    }
  }
  for (const auto& [device, p] : by_device(deployment)) {
    result.busy.push_back(Seconds(flat.busy[p]));
    DeviceMemory memory;
    memory.device = device;
    memory.capacity = cluster.devices[memory.device].memory;
    memory.headroom = memory.capacity - cluster.devices[memory.device].usable();
    memory.allocated = held[p].allocated;
    memory.reserved = held[p].reserved;
    memory.peak = fixed[p] + memory.reserved;
    memory.peak_instruction = ledger.peak_instruction(p) - flat.first[p];
    for (std::size_t i = 0; i < std::min(kLiveValues, live[p].size()); ++i) {
      const Storage& storage = layout.storages[live[p][i]];
      memory.live_at_peak.push_back({name_of(graph, storage), Bytes(storage.bytes)});
    }
    memory.uses = by_use(graph, layout, beside[p], live[p], memory.peak);
    if (!memory.fits()) {
      result.feasible = false;
      result.reasons.push_back(reason_of(cluster, memory));
    }
    result.memory.push_back(std::move(memory));
  }

  if (options.keep_events) {
    for (std::int32_t i = 0; i < flat.count(); ++i) {
      const std::int32_t program = flat.steps[i].program;
      result.events.push_back({deployment.programs[program].device, i - flat.first[program],
                               Seconds(engine.start_of(i)), Seconds(engine.end_of(i))});
    }
    std::sort(result.events.begin(), result.events.end(), [](const Event& a, const Event& b) {
      return std::tie(a.start, a.device, a.instruction) < std::tie(b.start, b.device, b.instruction);
    });
  }
  return result;
}

}  // namespace motley
