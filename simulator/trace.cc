#include "simulator/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/base64.h"
#include "base/error.h"
#include "compiler/serialize.h"
#include "graph/serialize.h"

namespace motley {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 4> kStreamNames = {"compute", "send", "receive", "collective"};
constexpr std::array<const char*, 9> kKindNames = {"compute",    "slice", "concatenate", "send", "receive",
                                                   "all-reduce", "sum",   "scale",       "fill"};

double microseconds(Seconds time) { return std::round(time.value * 1e9) / 1e3; }

class Writer {
 public:
  Writer(const Graph& graph, const Cluster& cluster, const Deployment& deployment)
      : graph_(graph), cluster_(cluster), programs_(cluster.devices.size(), nullptr) {
    for (const Program& program : deployment.programs) programs_[program.device] = &program;
  }

  void add(const Timeline& timeline) {
    const auto first_pid = static_cast<std::int32_t>(timelines_++ * cluster_.devices.size() + 1);
    for (std::size_t d = 0; d < programs_.size(); ++d) {
      if (programs_[d] != nullptr) name_process(first_pid + static_cast<std::int32_t>(d), timeline.label, d);
    }
    for (const Event& event : timeline.events) add(timeline, event, first_pid + event.device);
    for (const MemorySample& sample : timeline.memory) {
      write({{"name", "memory"},
             {"ph", "C"},
             {"ts", microseconds(sample.time)},
             {"pid", first_pid + sample.device},
             {"args", {{"bytes", sample.bytes.value}}}});
    }
  }

  // With what was run as the last member of the object.
  std::string take(const Json& motley) { return std::move(text_) + "\n],\n\"motley\":" + motley.dump() + "}\n"; }

 private:
  void write(const Json& event) {
    text_ += separator_ + event.dump();
    separator_ = ",\n";
  }

  void name_process(std::int32_t pid, const std::string& label, std::size_t device) {
    write({{"name", "process_name"},
           {"ph", "M"},
           {"pid", pid},
           {"args", {{"name", label + " " + cluster_.devices[device].name}}}});
    write({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", pid}, {"args", {{"sort_index", pid}}}});
    for (std::size_t stream = 0; stream < kStreamNames.size(); ++stream) {
      write({{"name", "thread_name"},
             {"ph", "M"},
             {"pid", pid},
             {"tid", stream + 1},
             {"args", {{"name", kStreamNames[stream]}}}});
      write({{"name", "thread_sort_index"},
             {"ph", "M"},
             {"pid", pid},
             {"tid", stream + 1},
             {"args", {{"sort_index", stream}}}});
    }
  }

  void add(const Timeline& timeline, const Event& event, std::int32_t pid) {
    const Program* program = event.device >= 0 && event.device < static_cast<DeviceIndex>(programs_.size())
                                 ? programs_[event.device]
                                 : nullptr;
    if (program == nullptr || event.instruction < 0 ||
        event.instruction >= static_cast<std::int32_t>(program->instructions.size())) {
      throw Error(ErrorKind::kInvalidInput, "the " + timeline.label + " timeline has instruction " +
                                                std::to_string(event.instruction) + " of device " +
                                                std::to_string(event.device) +
                                                ", which the deployment lacks: it is of another plan");
    }
    const Instruction& instruction = program->instructions[event.instruction];
    const auto stream = static_cast<std::size_t>(stream_of(instruction.kind)) + 1;
    const double start = microseconds(event.start), duration = microseconds(event.end) - start;
    Json arguments = {{"instruction", event.instruction}};
    if (instruction.kind == InstructionKind::kCompute) {
      const Op& op = graph_.ops[instruction.op];
      arguments["op"] = op.target;
      arguments["samples"] = instruction.batch;
      arguments["micro_batch"] = instruction.micro_batch;
      if (!op.source.empty()) arguments["source"] = op.source;
    } else {
      std::int64_t bytes = 0;
      const auto& values = instruction.outputs.empty() ? instruction.inputs : instruction.outputs;
      for (ValueId value : values) bytes += program->values[value].bytes.value;
      arguments["bytes"] = bytes;
    }
    write({{"name", instruction_name(graph_, cluster_, *program, instruction)},
           {"cat", kKindNames[static_cast<std::size_t>(instruction.kind)]},
           {"ph", "X"},
           {"ts", start},
           {"dur", duration},
           {"pid", pid},
           {"tid", stream},
           {"args", arguments}});
    const bool sends = instruction.kind == InstructionKind::kSend;
    if (!sends && instruction.kind != InstructionKind::kReceive) return;
    // An arrow's ends must lie within the slices that it joins.
    const DeviceIndex from = sends ? event.device : instruction.peer, to = sends ? instruction.peer : event.device;
    const std::int64_t id = message_id(from, to, instruction.tag);
    if (sends) {
      write({{"name", "message"},
             {"cat", "message"},
             {"ph", "s"},
             {"id", id},
             {"ts", start},
             {"pid", pid},
             {"tid", stream}});
    } else {
      write({{"name", "message"},
             {"cat", "message"},
             {"ph", "f"},
             {"bp", "e"},
             {"id", id},
             {"ts", start + duration * 0.999},
             {"pid", pid},
             {"tid", stream}});
    }
  }

  std::int64_t message_id(DeviceIndex from, DeviceIndex to, std::int32_t tag) {
    return messages_.try_emplace(std::tuple(timelines_, from, to, tag), messages_.size() + 1).first->second;
  }

  const Graph& graph_;
  const Cluster& cluster_;
  std::vector<const Program*> programs_;  // per device
  std::size_t timelines_ = 0;
  std::map<std::tuple<std::size_t, DeviceIndex, DeviceIndex, std::int32_t>, std::int64_t> messages_;
  std::string text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  std::string separator_;
};

}  // namespace

std::string trace_json(const Graph& graph, const Cluster& cluster, const Deployment& deployment,
                       const std::vector<Timeline>& timelines) {
  Writer writer(graph, cluster, deployment);
  Json runs = Json::array();
  for (const Timeline& timeline : timelines) {
    writer.add(timeline);
    runs.push_back({{"label", timeline.label}, {"iteration_seconds", timeline.iteration.value}});
  }
  return writer.take({{"version", kTraceFormatVersion},
                      {"timelines", runs},
                      {"strategy", deployment.strategy_name},
                      {"batch", deployment.batch},
                      {"model", graph.name},
                      {"fingerprint", deployment.graph_fingerprint},
                      {"cluster", to_yaml(cluster)},
                      {"graph", to_base64(serialize(graph))},
                      {"deployment", to_base64(serialize(deployment))}});
}

std::string instruction_name(const Graph& graph, const Cluster& cluster, const Program& program,
                             const Instruction& instruction) {
  if (instruction.kind == InstructionKind::kCompute) return graph.ops[instruction.op].name;
  const auto& values = instruction.outputs.empty() ? instruction.inputs : instruction.outputs;
  std::string name = kKindNames[static_cast<std::size_t>(instruction.kind)];
  if (!values.empty()) name += " " + graph.tensors[program.values[values.front()].tensor].name;
  if (values.size() > 1) name += " and " + std::to_string(values.size() - 1) + " more";
  if (instruction.kind == InstructionKind::kSend) name += " to " + cluster.devices[instruction.peer].name;
  if (instruction.kind == InstructionKind::kReceive) name += " from " + cluster.devices[instruction.peer].name;
  return name;
}

}  // namespace motley
