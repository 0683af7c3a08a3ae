#include "simulator/flat.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "simulator/collective.h"

namespace motley {

namespace {

constexpr std::size_t kStreams = 4;

std::size_t at(Stream stream) { return static_cast<std::size_t>(stream); }

// One pass over each program: what its instructions cost and wait for.
class FlatBuilder {
 public:
  FlatBuilder(const Graph& graph, const Cluster& cluster, const CostModel& costs, const Deployment& deployment,
              FlatDeployment& flat)
      : graph_(graph), cluster_(cluster), costs_(costs), deployment_(deployment), flat_(flat) {}

  void build() {
    std::size_t count = 0;
    for (const Program& program : deployment_.programs) {
      flat_.first.push_back(static_cast<std::int32_t>(count));
      count += program.instructions.size();
    }
    flat_.first.push_back(static_cast<std::int32_t>(count));
    program_of_.assign(cluster_.devices.size(), kNone);
    flat_.steps.resize(count);
    flat_.dependents.reserve(count);
    flat_.op_memory.resize(count);
    for (const Program& program : deployment_.programs) {
      MOTLEY_CHECK(program.device >= 0 && program.device < static_cast<DeviceIndex>(cluster_.devices.size()),
                   "program of a device that the cluster lacks");
      flat_.devices.push_back(program.device);
      const MessageCosts messages = costs_.messages(program.device);
      flat_.messages.push_back(messages);
      flat_.on_cpu.push_back(static_cast<std::uint8_t>(cluster_.devices[program.device].is_cpu()));
      flat_.messages_delay |= messages.delay_compute();
      program_of_[program.device] = program_;
      time(program);
      link(program);
      ++program_;
    }
    match_messages();
    flat_.members.append(static_cast<std::int32_t>(deployment_.collectives.size()), entries_);
    for (std::size_t c = 0; c < deployment_.collectives.size(); ++c) add_collective(static_cast<CollectiveId>(c));
  }

 private:
  struct End {  // of a message
    DeviceIndex from, to;
    std::int32_t tag, instruction;
    double bytes;
    auto key() const { return std::tie(from, to, tag); }
  };

  void time(const Program& program) {
    double busy = 0;
    const double dispatch = costs_.dispatch(program.device).value;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const std::int32_t index = flat_.first[program_] + static_cast<std::int32_t>(i);
      Step& step = flat_.steps[index];
      step.program = program_;
      step.stream = stream_of(instruction.kind);
      step.seconds = seconds(program, instruction, flat_.op_memory[index]);
      if (step.stream == Stream::kCompute) step.seconds += dispatch;
      if (step.stream == Stream::kCompute || step.stream == Stream::kCollective) busy += step.seconds;
      if (instruction.kind == InstructionKind::kSend) {
        const auto bytes = static_cast<double>(program.values[instruction.inputs[0]].bytes.value);
        sends_.push_back({program.device, instruction.peer, instruction.tag, index, bytes});
      } else if (instruction.kind == InstructionKind::kReceive) {
        receives_.push_back({instruction.peer, program.device, instruction.tag, index, 0});
      } else if (instruction.kind == InstructionKind::kAllReduce) {
        step.other = instruction.collective;
        entries_.push_back({instruction.collective, index});
      }
    }
    flat_.busy.push_back(busy);
  }

  double seconds(const Program& program, const Instruction& instruction, OpMemory& memory) {
    const auto pass = [&] {
      std::int64_t bytes = 0;
      for (ValueId value : instruction.outputs) bytes += program.values[value].bytes.value;
      return costs_.memory_pass(program.device, Bytes(bytes)).value;
    };
    switch (instruction.kind) {
      case InstructionKind::kCompute: {
        const OpCost cost = costs_.op(instruction.op, program.device, instruction.batch);
        memory = {cost.kept.value, cost.workspace.value};
        const double all = cost.time.value * static_cast<double>(1 + program.twins.size());
        flat_.op_seconds += all;
        if (!cost.measured) flat_.estimated_op_seconds += all;
        return cost.time.value;
      }
      case InstructionKind::kSlice: {
        const BatchLayout& layout = graph_.tensors[program.values[instruction.inputs[0]].tensor].layout;
        const bool view = layout.dim == 0 && layout.outer == 1;  // samples lie one after the other
        return view ? 0 : pass();
      }
      case InstructionKind::kSend:
      case InstructionKind::kReceive:
        return flat_.messages.back().overhead.value;
      case InstructionKind::kAllReduce:
        return instruction.inputs.size() > 1 ? pass() : 0;
      case InstructionKind::kConcat:
      case InstructionKind::kSum:
      case InstructionKind::kScale:
      case InstructionKind::kFill:
        break;
    }
    return pass();
  }

  void link(const Program& program) {
    const auto count = static_cast<std::int32_t>(program.instructions.size());
    Step* const steps = flat_.steps.data() + flat_.first[program_];
    producer_.assign(program.values.size(), kNone);
    for (std::int32_t i = 0; i < count; ++i) {
      for (ValueId value : program.instructions[i].outputs) {
        if (value != kNone) producer_[value] = i;
      }
    }
    waits_.clear();
    receives_here_.clear();
    std::array<std::int32_t, kStreams> last;
    last.fill(kNone);
    // By stream and other stream: the last instruction of the other that an instruction of the one waits for.
    std::array<std::array<std::int32_t, kStreams>, kStreams> waited;
    waited.fill(last);
    for (std::int32_t i = 0; i < count; ++i) {
      Step& step = steps[i];
      std::int32_t& previous = last[at(step.stream)];
      if (previous != kNone) steps[previous].next = flat_.first[program_] + i;
      if (step.stream != Stream::kReceive) {
        if (previous != kNone) ++step.waits;
      } else {
        if (receives_here_.size() >= kPostedReceives) wait(steps, receives_here_.end()[-kPostedReceives], i);
        receives_here_.push_back(i);
      }
      previous = i;
      std::array<std::int32_t, kStreams> makers;
      makers.fill(kNone);
      for (ValueId value : program.instructions[i].inputs) {
        const std::int32_t maker = value == kNone ? kNone : producer_[value];
        if (maker == kNone || maker == i) continue;
        std::int32_t& latest = makers[at(steps[maker].stream)];
        latest = std::max(latest, maker);
      }
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        const bool in_order = stream == at(step.stream) && makers[stream] < i;
        if (in_order || makers[stream] <= waited[at(step.stream)][stream]) continue;
        waited[at(step.stream)][stream] = makers[stream];
        wait(steps, makers[stream], i);
      }
    }
    flat_.dependents.append(count, waits_);
  }

  void wait(Step* steps, std::int32_t earlier, std::int32_t later) {
    ++steps[later].waits;
    steps[earlier].awaited = true;
    waits_.push_back({earlier, flat_.first[program_] + later});
  }

  std::span<const ChannelIndex> route(DeviceIndex from, DeviceIndex to) {
    const std::int64_t pair = static_cast<std::int64_t>(from) * static_cast<std::int64_t>(cluster_.devices.size()) + to;
    const auto [place, fresh] = routes_.try_emplace(pair, flat_.routes.size());
    if (fresh) flat_.routes.push_back(cluster_.route(from, to));
    return flat_.routes[place->second];
  }

  void match_messages() {
    MOTLEY_CHECK(sends_.size() == receives_.size(), "sends and receives do not match in number");
    const auto by_key = [](const End& a, const End& b) { return a.key() < b.key(); };
    std::sort(sends_.begin(), sends_.end(), by_key);
    std::sort(receives_.begin(), receives_.end(), by_key);
    flat_.transfers.reserve(sends_.size());
    double latency = 0;
    for (std::size_t m = 0; m < sends_.size(); ++m) {
      const End& send = sends_[m];
      MOTLEY_CHECK(send.key() == receives_[m].key(), "no receive matches the send with tag " +
                                                         std::to_string(send.tag) + " of device " +
                                                         std::to_string(send.from));
      const bool same_pair = m > 0 && sends_[m - 1].from == send.from && sends_[m - 1].to == send.to;
      if (!same_pair) latency = cluster_.latency(send.from, send.to).value;
      for (std::int32_t end : {send.instruction, receives_[m].instruction}) {
        flat_.steps[end].other = static_cast<std::int32_t>(m);
      }
      const std::span<const ChannelIndex> way = route(send.from, send.to);
      flat_.steps[send.instruction].seconds += cluster_.shortfall(way, send.bytes).value;
      flat_.transfers.push_back({way, send.bytes, latency, send.instruction, receives_[m].instruction});
    }
  }

  void add_collective(CollectiveId id) {
    const Collective& collective = deployment_.collectives[id];
    std::size_t entered = 0;
    for (std::int32_t member : flat_.members[id]) {
      entered += 1 + deployment_.programs[flat_.steps[member].program].twins.size();
    }
    MOTLEY_CHECK(entered == collective.members.size(),
                 "collective " + std::to_string(id) + " is not entered once by each of its members");
    const auto first_phase = static_cast<std::int32_t>(flat_.phases.size());
    const auto step_time = [this](DeviceIndex from, DeviceIndex to, double bytes) {
      return cluster_.latency(from, to) + costs_.messages(from).overhead + cluster_.shortfall(route(from, to), bytes);
    };
    const auto bytes = static_cast<double>(collective.bytes.value);
    for (const CollectiveStep& step : all_reduce_steps(collective.members, bytes, cluster_, step_time)) {
      const auto first_flow = static_cast<std::int32_t>(flat_.flows.size());
      for (const CollectiveHop& hop : step.hops) {
        if (hop.bytes == 0) continue;
        flat_.flows.push_back(
            {route(hop.from, hop.to), hop.bytes, hop.messages, program_of_[hop.from], program_of_[hop.to]});
      }
      flat_.phases.push_back({step.fixed.value, first_flow, static_cast<std::int32_t>(flat_.flows.size())});
    }
    flat_.collectives.push_back({first_phase, static_cast<std::int32_t>(flat_.phases.size())});
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  const Deployment& deployment_;
  FlatDeployment& flat_;
  std::int32_t program_ = 0;
  std::vector<std::int32_t> program_of_;                  // by device
  std::vector<OpMemory> op_memory_;                       // of the program
  std::vector<std::int32_t> producer_;                    // by value of the program
  std::vector<std::int32_t> receives_here_;               // of the program
  std::vector<FlatLists::Entry> waits_;                   // of the program
  std::vector<End> sends_, receives_;                     // of all
  std::vector<FlatLists::Entry> entries_;                 // of all collectives
  std::unordered_map<std::int64_t, std::size_t> routes_;  // by pair: its place in flat_.routes
};

}  // namespace

FlatDeployment::FlatDeployment(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                               const Deployment& deployment) {
  FlatBuilder(graph, cluster, costs, deployment, *this).build();
}

}  // namespace motley
