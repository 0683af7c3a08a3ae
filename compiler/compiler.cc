#include "compiler/compiler.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "compiler/builder.h"
#include "compiler/pass_order.h"
#include "compiler/placement.h"
#include "compiler/scheduler.h"
#include "compiler/tables.h"

namespace motley {
namespace {

// Turns scheduled tasks into programs.
class Emitter {
 public:
  Emitter(const TaskGraph& graph, DeviceIndex devices)
      : graph_(graph), local_(graph.values.size(), kNone), by_device_(at(devices)) {
    std::vector<std::size_t> counts(at(devices));
    for (const Task& task : graph.tasks) {
      if (task.members != kNone) {
        for (DeviceIndex member : graph.member_sets[at(task.members)]) ++counts[at(member)];
      } else {
        ++counts[at(task.device)];
        if (task.peer != kNone) ++counts[at(task.peer)];
      }
    }
    std::vector<std::size_t> values(at(devices));
    for (const TaskValue& made : graph.values) ++values[at(made.device)];
    last_use_.resize(at(devices));
    for (DeviceIndex device = 0; device < devices; ++device) {
      by_device_[at(device)].device = device;
      by_device_[at(device)].instructions.reserve(counts[at(device)]);
      by_device_[at(device)].values.reserve(values[at(device)]);
      last_use_[at(device)].reserve(values[at(device)]);
    }
  }

  Deployment run(const std::vector<TaskId>& order) {
    for (NodeId input : graph_.inputs) by_device_[at(value(input).device)].inputs.push_back(local(input));
    for (TaskId id : order) emit(graph_.tasks[at(id)]);
    for (const ProgramEdge& loss : graph_.losses) {
      Program& program = by_device_[at(value(loss.value).device)];
      program.losses.push_back({local(loss.value), loss.weight});
    }
    for (Program& program : by_device_) {
      if (program.instructions.empty()) continue;
      release(program);
      deployment_.programs.push_back(std::move(program));
    }
    return std::move(deployment_);
  }

 private:
  const TaskValue& value(NodeId id) const { return graph_.values[at(id)]; }

  ValueId local(NodeId id) {
    if (id == kNone) return kNone;
    if (local_[at(id)] != kNone) return local_[at(id)];
    const TaskValue& from = value(id);
    Value made{from.tensor, from.begin, from.end, Bytes(from.bytes), local(from.alias_of), from.persistent};
    Program& program = by_device_[at(from.device)];
    local_[at(id)] = static_cast<ValueId>(program.values.size());
    program.values.push_back(made);
    last_use_[at(from.device)].push_back(kNone);
    return local_[at(id)];
  }

  void operands(DeviceIndex device, std::span<const NodeId> nodes, std::vector<ValueId>& values) {
    const auto index = static_cast<std::int32_t>(by_device_[at(device)].instructions.size() - 1);
    values.reserve(nodes.size());
    for (NodeId node : nodes) {
      values.push_back(local(node));
      if (node != kNone) last_use_[at(device)][at(values.back())] = index;
    }
  }

  Instruction& add(const Task& task, DeviceIndex device, InstructionKind kind) {
    Instruction& instruction = by_device_[at(device)].instructions.emplace_back();
    instruction.kind = kind;
    instruction.op = task.op;
    instruction.batch = task.batch;
    instruction.micro_batch = task.micro_batch;
    instruction.scale = task.scale;
    return instruction;
  }

  void emit(const Task& task) {
    if (task.kind == InstructionKind::kSend) {
      emit_transfer(task);
    } else if (task.kind == InstructionKind::kAllReduce) {
      emit_collective(task);
    } else {
      Instruction& instruction = add(task, task.device, task.kind);
      operands(task.device, graph_.inputs_of(task), instruction.inputs);
      operands(task.device, graph_.outputs_of(task), instruction.outputs);
    }
  }

  void emit_transfer(const Task& task) {
    MOTLEY_CHECK(graph_.everyone.empty(), "a message between devices that stand for others");
    const auto [low, high] = std::minmax(task.device, task.peer);
    const std::int32_t tag = tags_[static_cast<std::int64_t>(low) << 32 | high]++;
    Instruction& send = add(task, task.device, InstructionKind::kSend);
    operands(task.device, graph_.inputs_of(task), send.inputs);
    send.peer = task.peer;
    send.tag = tag;
    Instruction& receive = add(task, task.peer, InstructionKind::kReceive);
    operands(task.peer, graph_.outputs_of(task), receive.outputs);
    receive.peer = task.device;
    receive.tag = tag;
  }

  void emit_collective(const Task& task) {
    const std::vector<DeviceIndex>& members = graph_.member_sets[at(task.members)];
    const std::size_t each = at(task.inputs) / members.size();
    Collective collective{graph_.everyone.empty() ? members : graph_.everyone, Bytes(0)};
    for (NodeId input : graph_.inputs_of(task).first(each)) collective.bytes += Bytes(value(input).bytes);
    for (std::size_t m = 0; m < members.size(); ++m) {
      Instruction& instruction = add(task, members[m], InstructionKind::kAllReduce);
      instruction.collective = static_cast<CollectiveId>(deployment_.collectives.size());
      operands(members[m], graph_.inputs_of(task).subspan(m * each, each), instruction.inputs);
      operands(members[m], graph_.outputs_of(task).subspan(m * each, each), instruction.outputs);
    }
    deployment_.collectives.push_back(std::move(collective));
  }

  void release(Program& program) {
    const std::vector<std::int32_t>& last_use = last_use_[at(program.device)];
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (program.values[v].persistent || program.is_loss(static_cast<ValueId>(v))) continue;
      program.instructions[at(last_use[v])].releases.push_back(static_cast<ValueId>(v));
    }
  }

  const TaskGraph& graph_;
  std::vector<ValueId> local_;  // by node: its value within its program
  std::vector<Program> by_device_;
  std::vector<std::vector<std::int32_t>> last_use_;      // by device and value: the last instruction that has it
  std::unordered_map<std::int64_t, std::int32_t> tags_;  // by pair of devices: the next one
  Deployment deployment_;
};

// Why the batch cannot be divided; empty when it can.
std::string indivisible(const CompilerTables& tables, const Strategy& strategy, std::int64_t batch) {
  if (batch < strategy.micro_batches) {
    return "a batch of " + std::to_string(batch) + " cannot be divided in " + std::to_string(strategy.micro_batches) +
           " micro-batches: use fewer, or a larger batch";
  }
  if (strategy.micro_batches > 1 && tables.late_completion != kNone) {
    return "tensor " + tables.graph.tensors[static_cast<std::size_t>(tables.late_completion)].name +
           " is a statistic of the whole batch, which rests on what the model computes: use one micro-batch";
  }
  return "";
}

// One placement per micro-batch. Those of one size and on the same ranks differ in their samples alone.
std::variant<std::vector<Placement>, NotCompilable> place(const CompilerTables& tables, const PassOrder& order,
                                                          const Strategy& strategy, std::int64_t batch,
                                                          Placement first) {
  std::vector<Placement> placements;
  std::int64_t begin = 0;
  std::map<std::pair<std::int64_t, std::vector<std::int32_t>>, std::pair<std::size_t, std::int64_t>> known;
  if (order.at_home(0)) {
    placements.push_back(std::move(first));
    begin = samples_of(0, strategy, batch);
    known.try_emplace({begin, order.ranks(0)}, 0, 0);
  }
  for (auto m = static_cast<std::int32_t>(placements.size()); m < strategy.micro_batches; ++m) {
    const std::int64_t samples = samples_of(m, strategy, batch);
    const auto [like, fresh] = known.try_emplace({samples, order.ranks(m)}, placements.size(), begin);
    if (!fresh) {
      placements.push_back(placements[like->second.first].moved(begin - like->second.second));
    } else {
      std::variant<Placement, NotCompilable> made = Placement::make(tables, order.placed(m), begin, samples);
      if (auto* reason = std::get_if<NotCompilable>(&made)) return std::move(*reason);
      placements.push_back(std::move(std::get<Placement>(made)));
    }
    begin += samples;
  }
  return placements;
}

}  // namespace

Compiler::Compiler(const Graph& graph, const Cluster& cluster, const CostModel& costs)
    : tables_(std::make_unique<const CompilerTables>(graph, cluster, costs)) {}
Compiler::~Compiler() = default;
Compiler::Compiler(Compiler&&) noexcept = default;
Compiler& Compiler::operator=(Compiler&&) noexcept = default;

std::variant<Deployment, NotCompilable> Compiler::compile(const Strategy& strategy, std::int64_t batch,
                                                          Folding folding) const {
  check_fit(*tables_, strategy);
  if (std::string why = indivisible(*tables_, strategy, batch); !why.empty()) return NotCompilable{std::move(why)};
  std::variant<Placement, NotCompilable> made = Placement::make(*tables_, strategy, 0, samples_of(0, strategy, batch));
  if (auto* reason = std::get_if<NotCompilable>(&made)) return std::move(*reason);
  Placement& first = std::get<Placement>(made);
  const bool even = batch % strategy.micro_batches == 0;  // then all micro-batches are placed alike
  if (folding == Folding::kTwins && even) first.fold(*tables_, strategy);
  std::variant<PassOrder, NotCompilable> ordered = PassOrder::make(*tables_, strategy, first);
  if (auto* reason = std::get_if<NotCompilable>(&ordered)) return std::move(*reason);
  const PassOrder& order = std::get<PassOrder>(ordered);
  std::variant<std::vector<Placement>, NotCompilable> placed =
      place(*tables_, order, strategy, batch, std::move(first));
  if (auto* reason = std::get_if<NotCompilable>(&placed)) return std::move(*reason);
  const auto& placements = std::get<std::vector<Placement>>(placed);
  const TaskGraph tasks = Builder(*tables_, strategy, placements, order, batch).build();
  Deployment deployment = Emitter(tasks, tables_->devices()).run(schedule(tasks, tables_->devices()).order);
  for (Program& program : deployment.programs) {
    const std::span<const DeviceIndex> twins = placements[0].twins(program.device);
    program.twins.assign(twins.begin(), twins.end());
  }
  deployment.batch = batch;
  deployment.strategy_name = strategy.name;
  deployment.graph_fingerprint = tables_->graph.fingerprint;
  return deployment;
}

std::variant<Deployment, NotCompilable> compile(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                                const Strategy& strategy, std::int64_t batch) {
  return Compiler(graph, cluster, costs).compile(strategy, batch);
}

}  // namespace motley
