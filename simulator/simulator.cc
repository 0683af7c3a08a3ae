#include "simulator/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "simulator/engine.h"

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
    case Storage::Kind::kBucket:
      break;
  }
  return "a bucket of gradients";
}

// What fills a device, by what it is for: a user changes the batch, the shares or the optimizer accordingly.
enum Use : std::size_t {
  kContext,
  kParameters,
  kBuffers,
  kStates,
  kActivations,
  kGradients,
  kWorkspace,
  kFragmentation,
  kUses
};
constexpr std::array<const char*, kUses> kUseNames = {"context",
                                                      "parameters",
                                                      "inputs, buffers and constants",
                                                      "optimizer states",
                                                      "activations",
                                                      "gradients",
                                                      "workspace",
                                                      "blocks that the allocator rounds up or cannot reuse"};

Use use_of(const Graph& graph, const Storage& storage) {
  if (storage.kind == Storage::Kind::kKept) return kActivations;
  if (storage.kind == Storage::Kind::kWorkspace) return kWorkspace;
  if (storage.kind == Storage::Kind::kBucket) return kGradients;
  switch (graph.tensors[storage.tensor].role) {
    case TensorRole::kParameter:
      return kParameters;
    case TensorRole::kOptimizerState:
      return kStates;
    case TensorRole::kActivation:
      return kActivations;
    case TensorRole::kGradient:
      return kGradients;
    case TensorRole::kInput:
    case TensorRole::kBuffer:
    case TensorRole::kConstant:
      break;
  }
  return kBuffers;
}

std::string reason_of(const Graph& graph, const Cluster& cluster, const MemoryLayout& layout,
                      const DeviceMemory& memory, Bytes context, const std::vector<std::int32_t>& live) {
  std::array<std::int64_t, kUses> by_use{};
  by_use[kContext] = context.value;
  for (std::int32_t s : live) by_use[use_of(graph, layout.storages[s])] += layout.storages[s].bytes;
  by_use[kFragmentation] = memory.peak.value - std::accumulate(by_use.begin(), by_use.end(), std::int64_t{0});
  std::array<std::size_t, kUses> order{};
  for (std::size_t use = 0; use < kUses; ++use) order[use] = use;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return by_use[a] > by_use[b]; });

  std::string text =
      cluster.devices[memory.device].name + " needs " + to_string(memory.peak) + " of " + to_string(memory.capacity);
  if (memory.headroom > Bytes(0)) text += " less " + to_string(memory.headroom) + " of headroom";
  text += " (" + to_string(memory.lacking()) + " over): ";
  for (std::size_t i = 0; i < kUses && by_use[order[i]] > 0; ++i) {
    text += (i == 0 ? "" : ", ") + to_string(Bytes(by_use[order[i]])) + " " + kUseNames[order[i]];
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
  std::vector<Bytes> contexts;
  for (const Program& program : deployment.programs) contexts.push_back(costs.context(program.device));
  const MemoryLayout layout(graph, deployment, flat);
  MemoryLedger ledger(layout, flat, contexts);
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
    const auto allocator = exact ? make_allocator_model(costs.allocator(device), capacity - contexts[p]) : nullptr;
    if (allocator == nullptr) {
      held.push_back({Bytes(ledger.peak(program)) - contexts[p], Bytes(ledger.peak(program)) - contexts[p]});
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
    memory.peak = contexts[p] + memory.reserved;
    memory.peak_instruction = ledger.peak_instruction(p) - flat.first[p];
    for (std::size_t i = 0; i < std::min(kLiveValues, live[p].size()); ++i) {
      const Storage& storage = layout.storages[live[p][i]];
      memory.live_at_peak.push_back({name_of(graph, storage), Bytes(storage.bytes)});
    }
    if (!memory.fits()) {
      result.feasible = false;
      result.reasons.push_back(reason_of(graph, cluster, layout, memory, contexts[p], live[p]));
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
