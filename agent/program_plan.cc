#include "agent/program_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace motley {

ProgramPlan::ProgramPlan(const Graph& graph, const Program& program)
    : values(program.values.size()),
      place(program.instructions.size()),
      inputs(program.instructions.size()),
      runs_again(program.instructions.size()),
      brought(program.instructions.size()) {
  find_brought(graph, program);
  std::set<std::pair<OpId, std::int32_t>> later;
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind != InstructionKind::kCompute) continue;
    runs_again[i] = later.insert({instruction.op, instruction.micro_batch}).second ? 0 : 1;
  }
  std::array<std::int32_t, 4> length{};
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto id = static_cast<std::int32_t>(i);
    const Stream stream = stream_of(instruction.kind);
    place[i] = length[static_cast<std::size_t>(stream)]++;
    if (stream == Stream::kReceive) receives.push_back(id);
    std::set<ValueId> distinct(instruction.inputs.begin(), instruction.inputs.end());
    distinct.erase(kNone);
    inputs[i] = static_cast<std::int32_t>(distinct.size());
    for (const ValueId input : distinct) {
      ++values[input].uses;
      if (stream == Stream::kSend || stream == Stream::kCollective) values[input].messages.push_back(id);
    }
    for (const ValueId output : instruction.outputs) {
      if (output == kNone) continue;
      const ValueId root = program.values[output].alias_of;
      if (instruction.kind == InstructionKind::kReceive && root != kNone && program.values[root].persistent) {
        values[output].state = root;
      }
    }
  }
}

void ProgramPlan::find_brought(const Graph& graph, const Program& program) {
  const auto storage = [&](ValueId id) {
    return program.values[id].alias_of == kNone ? id : program.values[id].alias_of;
  };
  std::map<std::pair<OpId, std::int32_t>, std::size_t> ran;  // forward ops, by micro-batch: last
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& backward = program.instructions[i];
    if (backward.kind != InstructionKind::kCompute) continue;
    const Op& op = graph.ops[backward.op];
    if (op.kind == OpKind::kForward) ran[{backward.op, backward.micro_batch}] = i;
    if (!op.is_backward()) continue;
    const auto found = ran.find({op.forward, backward.micro_batch});
    if (found == ran.end()) continue;  // whoever runs it says so
    const std::size_t at = found->second;
    const Op& forward_op = graph.ops[op.forward];
    std::vector<TensorId> tensors = forward_op.inputs;
    tensors.insert(tensors.end(), forward_op.outputs.begin(), forward_op.outputs.end());
    std::vector<ValueId> had = program.instructions[at].inputs;
    had.insert(had.end(), program.instructions[at].outputs.begin(), program.instructions[at].outputs.end());
    for (std::size_t k = op.gradient_outputs.size(); k < op.inputs.size(); ++k) {
      for (std::size_t place = 0; place < tensors.size(); ++place) {
        if (backward.inputs[k] == kNone || had[place] == kNone || tensors[place] != op.inputs[k]) continue;
        const auto id = static_cast<std::int32_t>(place);
        const bool known = std::find(brought[at].begin(), brought[at].end(), id) != brought[at].end();
        if (!known && storage(had[place]) != storage(backward.inputs[k])) brought[at].push_back(id);
      }
    }
  }
}

}  // namespace motley
