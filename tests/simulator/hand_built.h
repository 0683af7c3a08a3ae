#pragma once

// Deployments built by hand, instruction by instruction, on machines whose numbers are small: so that a test can work
// out every time and every byte in a comment.

#include <string>
#include <vector>

#include "base/error.h"
#include "compiler/deployment.h"
#include "profiler/cost_model.h"
#include "simulator/simulator.h"
#include "tests/support/fixed_costs.h"

namespace motley {

// Every op takes the seconds it was given, on any device and at any batch; a memory pass writes 1 B/s.
class HandCosts : public CostModel {
 public:
  struct Entry {
    double seconds = 1;
    std::int64_t kept = 0;
    std::int64_t workspace = 0;
    bool measured = true;
  };
  OpCost op(OpId op, DeviceIndex, std::int64_t) const override {
    const Entry& entry = ops[op];
    return {Seconds(entry.seconds), Seconds(0), Bytes(entry.kept), Bytes(entry.workspace), entry.measured};
  }
  Seconds memory_pass(DeviceIndex, Bytes bytes) const override { return Seconds(static_cast<double>(bytes.value)); }
  Seconds dispatch(DeviceIndex) const override { return Seconds(dispatch_seconds); }
  MessageCosts messages(DeviceIndex) const override {
    return {Seconds(overhead), Seconds(work), Seconds(work_per_byte), Seconds(pause), in_line};
  }
  Bytes context(DeviceIndex) const override { return Bytes(context_bytes); }
  AllocatorKind allocator(DeviceIndex) const override { return kind; }

  std::vector<Entry> ops;
  double dispatch_seconds = 0;
  double overhead = 0;
  double work = 0;
  double work_per_byte = 0;
  double pause = 0;
  bool in_line = false;
  std::int64_t context_bytes = 0;
  AllocatorKind kind = AllocatorKind::kNone;
};

// A star of one device per entry of `bandwidths`, in B/s.
inline Cluster star(const std::vector<double>& bandwidths, Bytes memory = Bytes(1000), Seconds latency = Seconds(0)) {
  std::vector<BytesPerSecond> links;
  for (double bandwidth : bandwidths) links.emplace_back(bandwidth);
  return support::star_cluster(static_cast<int>(links.size()), links, latency, memory);
}

class HandBuilt {
 public:
  explicit HandBuilt(Cluster machine) : cluster(std::move(machine)) {}

  OpId op(HandCosts::Entry entry, OpKind kind = OpKind::kForward, OpId forward = kNone) {
    Op op;
    op.kind = kind;
    op.name = "op" + std::to_string(graph.ops.size());
    op.forward = forward;
    graph.ops.push_back(op);
    costs.ops.push_back(entry);
    return static_cast<OpId>(graph.ops.size() - 1);
  }

  Program& program(DeviceIndex device) {
    for (Program& program : deployment.programs) {
      if (program.device == device) return program;
    }
    deployment.programs.push_back({});
    deployment.programs.back().device = device;
    return deployment.programs.back();
  }

  // A tensor of its own name, held by `device`.
  ValueId value(DeviceIndex device, const std::string& name, std::int64_t bytes, bool persistent = false,
                ValueId alias_of = kNone) {
    Tensor tensor;
    tensor.name = name;
    tensor.role = persistent ? TensorRole::kParameter : TensorRole::kActivation;
    graph.tensors.push_back(tensor);
    Value value;
    value.tensor = static_cast<TensorId>(graph.tensors.size() - 1);
    value.bytes = Bytes(bytes);
    value.persistent = persistent;
    value.alias_of = alias_of;
    program(device).values.push_back(value);
    return static_cast<ValueId>(program(device).values.size() - 1);
  }

  // Returns the instruction's place.
  std::int32_t add(DeviceIndex device, Instruction instruction) {
    program(device).instructions.push_back(std::move(instruction));
    return static_cast<std::int32_t>(program(device).instructions.size() - 1);
  }
  std::int32_t compute(DeviceIndex device, OpId op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                       std::vector<ValueId> releases = {}) {
    return add(device, {.kind = InstructionKind::kCompute,
                        .op = op,
                        .batch = 1,
                        .inputs = std::move(inputs),
                        .outputs = std::move(outputs),
                        .releases = std::move(releases)});
  }
  // Sends `value` of `from`; returns what `to` receives.
  ValueId transfer(DeviceIndex from, ValueId value, DeviceIndex to) {
    const Value sent = program(from).values[value];
    const ValueId received = this->value(to, graph.tensors[sent.tensor].name + "'", sent.bytes.value);
    add(from, {.kind = InstructionKind::kSend, .inputs = {value}, .peer = to, .tag = tag_});
    add(to, {.kind = InstructionKind::kReceive, .outputs = {received}, .peer = from, .tag = tag_++});
    return received;
  }
  // All-reduces `values[i]` of `members[i]` in place.
  void all_reduce(const std::vector<DeviceIndex>& members, const std::vector<ValueId>& values, std::int64_t bytes) {
    const auto collective = static_cast<CollectiveId>(deployment.collectives.size());
    deployment.collectives.push_back({members, Bytes(bytes)});
    for (std::size_t m = 0; m < members.size(); ++m) {
      const ValueId reduced = value(members[m], "reduced", bytes, false, values[m]);
      add(members[m],
          {.kind = InstructionKind::kAllReduce, .inputs = {values[m]}, .outputs = {reduced}, .collective = collective});
    }
  }

  SimulationResult run() const { return simulate(graph, cluster, costs, deployment, {.keep_events = true}); }
  static Event event(const SimulationResult& result, DeviceIndex device, std::int32_t instruction) {
    for (const Event& event : result.events) {
      if (event.device == device && event.instruction == instruction) return event;
    }
    throw Error(ErrorKind::kInternal, "no such event");
  }

  Graph graph;
  Cluster cluster;
  HandCosts costs;
  Deployment deployment;

 private:
  std::int32_t tag_ = 0;
};

// Devices 1 and 2 send to device 0, which posts the receive from device 2 only when the first of those from device 1,
// whose value is made at 7, has ended.
inline HandBuilt late_posting() {
  HandBuilt h(star({10, 10, 10}));
  const ValueId late = h.value(1, "late", 10);
  h.compute(1, h.op({7}), {}, {late});
  for (int i = 0; i < kPostedReceives; ++i) h.transfer(1, late, 0);
  const ValueId early = h.value(2, "early", 20);
  h.compute(2, h.op({1}), {}, {early});
  h.transfer(2, early, 0);
  return h;
}

}  // namespace motley
