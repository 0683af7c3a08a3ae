#include "simulator/critical_path.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace motley {

CausalTimeline::CausalTimeline(const Deployment& deployment, const std::vector<Event>& events)
    : deployment_(deployment) {
  std::int32_t count = 0;
  for (const Program& program : deployment.programs) {
    program_of_[program.device] = static_cast<std::int32_t>(first_.size());
    first_.push_back(count);
    count += static_cast<std::int32_t>(program.instructions.size());
  }
  first_.push_back(count);
  nodes_.resize(static_cast<std::size_t>(count));
  link();
  take_times(events);
}

void CausalTimeline::link() {
  using Message = std::tuple<DeviceIndex, DeviceIndex, std::int32_t>;  // sender, receiver, tag
  std::map<Message, std::int32_t> unpaired;
  const auto pair = [&](const Message& message, std::int32_t instruction) {
    const auto [other, fresh] = unpaired.try_emplace(message, instruction);
    if (fresh) return;
    nodes_[instruction].partner = other->second;
    nodes_[other->second].partner = instruction;
    unpaired.erase(other);
  };
  members_.resize(deployment_.collectives.size());
  for (std::size_t p = 0; p < deployment_.programs.size(); ++p) {
    const Program& program = deployment_.programs[p];
    std::vector<std::int32_t>& producer = producers_.emplace_back(program.values.size(), kNone);
    std::array<std::int32_t, 4> last;
    last.fill(kNone);
    std::vector<std::int32_t> receives;
    for (std::int32_t i = first_[p]; i < first_[p + 1]; ++i) {
      const Instruction& instruction = program.instructions[static_cast<std::size_t>(i - first_[p])];
      Node& node = nodes_[i];
      node.instruction = &instruction;
      node.program = static_cast<std::int32_t>(p);
      node.before = std::exchange(last[static_cast<std::size_t>(stream_of(instruction.kind))], i);
      for (ValueId output : instruction.outputs) {
        if (output != kNone) producer[output] = i;
      }
      switch (instruction.kind) {
        case InstructionKind::kSend:
          pair({program.device, instruction.peer, instruction.tag}, i);
          break;
        case InstructionKind::kReceive:
          pair({instruction.peer, program.device, instruction.tag}, i);
          if (receives.size() >= kPostedReceives) node.posting = receives.end()[-kPostedReceives];
          receives.push_back(i);
          break;
        case InstructionKind::kAllReduce:
          members_[instruction.collective].push_back(i);
          break;
        default:
          break;
      }
    }
  }
}

std::int32_t CausalTimeline::number_of(DeviceIndex device, std::int32_t instruction) const {
  const auto found = program_of_.find(device);
  if (found == program_of_.end() || instruction < 0) return kNone;
  const std::int32_t number = first_[found->second] + instruction;
  return number < first_[found->second + 1] ? number : kNone;
}

void CausalTimeline::take_times(const std::vector<Event>& events) {
  const auto refuse = [](DeviceIndex device, std::int32_t instruction, const std::string& why) {
    throw Error(ErrorKind::kInvalidInput, "the timeline " + why + ": instruction " + std::to_string(instruction) +
                                              " of device " + std::to_string(device) +
                                              "; give one whole iteration of this deployment");
  };
  for (const Event& event : events) {
    const std::int32_t number = number_of(event.device, event.instruction);
    if (number == kNone) refuse(event.device, event.instruction, "has what the deployment lacks");
    Node& node = nodes_[number];
    if (node.end.value >= 0) refuse(event.device, event.instruction, "has one instruction twice");
    node.begin = event.start;
    node.end = event.end;
    length_ = std::max(length_, event.end);
  }
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(nodes_.size()); ++i) {
    const Node& node = nodes_[i];
    if (node.end.value < 0) refuse(device_of(node), i - first_[node.program], "lacks an instruction");
  }
}

Seconds CausalTimeline::at(Moment moment) const {
  const Node& node = nodes_[moment.instruction];
  return moment.edge == Edge::kBegin ? node.begin : node.end;
}

template <typename Visit>
void CausalTimeline::for_each_awaited(Moment moment, const Visit& visit) const {
  const Node& node = nodes_[moment.instruction];
  const auto end_of = [&](std::int32_t instruction) {
    if (instruction != kNone) visit(Moment{instruction, Edge::kEnd});
  };
  const InstructionKind kind = node.instruction->kind;
  if (moment.edge == Edge::kBegin) {
    end_of(kind == InstructionKind::kReceive ? node.posting : node.before);
    for (ValueId input : node.instruction->inputs) {
      if (input != kNone) end_of(producers_[node.program][input]);
    }
    return;
  }
  switch (kind) {
    case InstructionKind::kReceive:
      visit(Moment{node.partner, Edge::kBegin});
      end_of(node.before);
      break;
    case InstructionKind::kAllReduce:
      for (std::int32_t member : members_[node.instruction->collective]) visit(Moment{member, Edge::kBegin});
      break;
    default:
      visit(Moment{moment.instruction, Edge::kBegin});
      if (kind == InstructionKind::kSend) end_of(nodes_[node.partner].posting);
  }
}

CausalTimeline::Moment CausalTimeline::last_awaited(Moment moment) const {
  Moment last;
  for_each_awaited(moment, [&](Moment awaited) {
    if (last.instruction == kNone || at(awaited) > at(last)) last = awaited;
  });
  return last;
}

PathStep CausalTimeline::step(Moment moment, Seconds from, Seconds to, bool first) const {
  const Node& node = nodes_[moment.instruction];
  return {device_of(node), moment.instruction - first_[node.program], moment.edge, first, from, to};
}

std::vector<PathStep> CausalTimeline::steps() const {
  std::vector<PathStep> steps;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(nodes_.size()); ++i) {
    for (const Edge edge : {Edge::kBegin, Edge::kEnd}) {
      const Moment moment{i, edge}, awaited = last_awaited(moment);
      const bool posting = edge == Edge::kBegin && nodes_[i].instruction->kind == InstructionKind::kReceive;
      if (awaited.instruction == kNone || posting) continue;
      steps.push_back(step(moment, std::min(at(awaited), at(moment)), at(moment), false));
    }
  }
  return steps;
}

std::vector<PathStep> CausalTimeline::critical_path() const {
  std::vector<PathStep> path;
  if (nodes_.empty()) return path;
  const auto latest =
      std::max_element(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.end < b.end; });
  Moment moment{static_cast<std::int32_t>(latest - nodes_.begin()), Edge::kEnd};
  Seconds to = length_;
  while (moment.instruction != kNone) {
    const Moment awaited = last_awaited(moment);
    const bool first = awaited.instruction == kNone;
    const Seconds from = first ? Seconds(0) : std::min(to, at(awaited));
    path.push_back(step(moment, from, to, first));
    to = from;
    moment = awaited;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

Seconds CausalTimeline::duration(const PathStep& step) const {
  const Moment moment{number_of(step.device, step.instruction), step.until};
  MOTLEY_CHECK(moment.instruction != kNone, "a step of another deployment");
  const Moment awaited = last_awaited(moment);
  const Seconds from = awaited.instruction == kNone ? Seconds(0) : at(awaited);
  return std::max(Seconds(0), at(moment) - from);
}

}  // namespace motley
