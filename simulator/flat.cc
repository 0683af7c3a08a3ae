#include "simulator/flat.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/error.h"

namespace motley {

void FlatLists::lay_out() {
  for (std::size_t list = 1; list < ends_.size(); ++list) ends_[list] += ends_[list - 1];
  items_.resize(ends_.back());
  ends_.pop_back();  // what is left of ends_[list] is where list begins; add() moves it to where it ends
}

FlatDeployment::FlatDeployment(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                               const Deployment& deployment) {
  std::int32_t values = 0;
  for (std::size_t p = 0; p < deployment.programs.size(); ++p) {
    first.push_back(count());
    first_value.push_back(values);
    values += static_cast<std::int32_t>(deployment.programs[p].values.size());
    for (const Instruction& instruction : deployment.programs[p].instructions) {
      instructions.push_back(&instruction);
      program.push_back(static_cast<std::int32_t>(p));
    }
  }
  first.push_back(count());
  first_value.push_back(values);
  time_instructions(graph, cluster, costs, deployment);
  link_instructions(deployment);
  match_messages(deployment);
  list_members(cluster, costs, deployment);
}

void FlatDeployment::time_instructions(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                       const Deployment& deployment) {
  seconds.assign(count(), 0);
  bytes.assign(count(), 0);
  op_memory.resize(count());
  busy.assign(deployment.programs.size(), 0);
  for (std::size_t p = 0; p < deployment.programs.size(); ++p) {
    const Program& code = deployment.programs[p];
    MOTLEY_CHECK(code.device >= 0 && code.device < static_cast<DeviceIndex>(cluster.devices.size()),
                 "program of a device that the cluster lacks");
    for (std::int32_t i = first[p]; i < first[p + 1]; ++i) {
      const Instruction& instruction = *instructions[i];
      const auto output_bytes = [&] {
        std::int64_t sum = 0;
        for (ValueId value : instruction.outputs) sum += code.values[value].bytes.value;
        return Bytes(sum);
      };
      switch (instruction.kind) {
        case InstructionKind::kCompute: {
          const OpCost cost = costs.op(instruction.op, code.device, instruction.batch);
          seconds[i] = cost.time.value;
          op_memory[i] = {cost.kept.value, cost.workspace.value};
          op_seconds += cost.time.value;
          if (!cost.measured) estimated_op_seconds += cost.time.value;
          break;
        }
        case InstructionKind::kSlice: {
          const BatchLayout& layout = graph.tensors[code.values[instruction.inputs[0]].tensor].layout;
          const bool view = layout.dim == 0 && layout.outer == 1;  // samples lie one after the other
          if (!view) seconds[i] = costs.memory_pass(code.device, output_bytes()).value;
          break;
        }
        case InstructionKind::kConcat:
        case InstructionKind::kSum:
        case InstructionKind::kScale:
        case InstructionKind::kFill:
          seconds[i] = costs.memory_pass(code.device, output_bytes()).value;
          break;
        case InstructionKind::kSend:
          bytes[i] = code.values[instruction.inputs[0]].bytes.value;
          [[fallthrough]];
        case InstructionKind::kReceive:
          seconds[i] = costs.message_overhead(code.device).value;
          break;
        case InstructionKind::kAllReduce:
          if (instruction.inputs.size() > 1) seconds[i] = costs.memory_pass(code.device, output_bytes()).value;
          break;
      }
      const Stream stream = stream_of(instruction.kind);
      if (stream == Stream::kCompute || stream == Stream::kCollective) busy[p] += seconds[i];
    }
  }
}

void FlatDeployment::link_instructions(const Deployment& deployment) {
  waits.assign(count(), 0);
  std::vector<std::int32_t> producer(first_value.back(), kNone);
  std::vector<std::int32_t> predecessor(count(), kNone);
  previous_receive.assign(count(), kNone);
  next_receive.assign(count(), kNone);
  std::vector<std::int32_t> receives;
  for (std::size_t p = 0; p < deployment.programs.size(); ++p) {
    std::int32_t last[4] = {kNone, kNone, kNone, kNone};  // per stream
    receives.clear();
    for (std::int32_t i = first[p]; i < first[p + 1]; ++i) {
      std::int32_t& previous = last[static_cast<std::size_t>(stream_of(instructions[i]->kind))];
      predecessor[i] = previous;
      if (instructions[i]->kind == InstructionKind::kReceive) {
        previous_receive[i] = previous;
        if (previous != kNone) next_receive[previous] = i;
        const std::size_t place = receives.size();
        predecessor[i] = place < kPostedReceives ? kNone : receives[place - kPostedReceives];
        receives.push_back(i);
      }
      previous = i;
      for (ValueId value : instructions[i]->outputs) {
        if (value != kNone) producer[first_value[p] + value] = i;
      }
    }
  }
  const auto for_each_wait = [&](auto&& visit) {
    for (std::int32_t i = 0; i < count(); ++i) {
      if (predecessor[i] != kNone) visit(predecessor[i], i);
      for (ValueId value : instructions[i]->inputs) {
        const std::int32_t made = value == kNone ? kNone : producer[first_value[program[i]] + value];
        if (made != kNone && made != i) visit(made, i);
      }
    }
  };
  dependents = FlatLists(count());
  for_each_wait([&](std::int32_t earlier, std::int32_t later) {
    dependents.count(earlier);
    ++waits[later];
  });
  dependents.lay_out();
  for_each_wait([&](std::int32_t earlier, std::int32_t later) { dependents.add(earlier, later); });
}

void FlatDeployment::match_messages(const Deployment& deployment) {
  struct End {
    DeviceIndex from, to;
    std::int32_t tag, instruction;
    auto key() const { return std::tie(from, to, tag); }
  };
  std::vector<End> sends, receives;
  for (std::int32_t i = 0; i < count(); ++i) {
    const Instruction& instruction = *instructions[i];
    const DeviceIndex device = deployment.programs[program[i]].device;
    if (instruction.kind == InstructionKind::kSend) sends.push_back({device, instruction.peer, instruction.tag, i});
    if (instruction.kind == InstructionKind::kReceive)
      receives.push_back({instruction.peer, device, instruction.tag, i});
  }
  const auto by_key = [](const End& a, const End& b) { return a.key() < b.key(); };
  std::sort(sends.begin(), sends.end(), by_key);
  std::sort(receives.begin(), receives.end(), by_key);
  peer.assign(count(), kNone);
  MOTLEY_CHECK(sends.size() == receives.size(), "sends and receives do not match in number");
  for (std::size_t m = 0; m < sends.size(); ++m) {
    MOTLEY_CHECK(sends[m].key() == receives[m].key(), "no receive matches the send with tag " +
                                                          std::to_string(sends[m].tag) + " of device " +
                                                          std::to_string(sends[m].from));
    peer[sends[m].instruction] = receives[m].instruction;
    peer[receives[m].instruction] = sends[m].instruction;
  }
}

void FlatDeployment::list_members(const Cluster& cluster, const CostModel& costs, const Deployment& deployment) {
  members = FlatLists(deployment.collectives.size());
  for (const Instruction* instruction : instructions) {
    if (instruction->kind == InstructionKind::kAllReduce) members.count(instruction->collective);
  }
  members.lay_out();
  for (std::int32_t i = 0; i < count(); ++i) {
    if (instructions[i]->kind == InstructionKind::kAllReduce) members.add(instructions[i]->collective, i);
  }
  for (std::size_t c = 0; c < deployment.collectives.size(); ++c) {
    const std::vector<DeviceIndex>& ring = deployment.collectives[c].members;
    MOTLEY_CHECK(members[static_cast<std::int32_t>(c)].size() == ring.size(),
                 "collective " + std::to_string(c) + " is not entered once by each of its members");
    double step = 0;  // a step is as slow as its slowest edge
    for (std::size_t m = 0; m < ring.size() && ring.size() > 1; ++m) {
      const DeviceIndex next = ring[(m + 1) % ring.size()];
      step = std::max(step, (cluster.latency(ring[m], next) + costs.message_overhead(ring[m])).value);
    }
    step_seconds.push_back(step);
  }
}

}  // namespace motley
