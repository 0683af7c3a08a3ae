#include "agent/program_plan.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace motley {

ProgramPlan::ProgramPlan(const Program& program)
    : values(program.values.size()),
      place(program.instructions.size()),
      inputs(program.instructions.size()),
      runs_again(program.instructions.size()) {
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

}  // namespace motley
