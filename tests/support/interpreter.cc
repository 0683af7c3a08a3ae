#include "tests/support/interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace motley::support {
namespace {

using Storage = std::shared_ptr<Array>;

// Rows of `width`; x[row * width + column].
Array linear(const Array& x, const Array& weight, const Array& bias) {
  const std::size_t width = bias.size();
  Array y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / width;
    const std::size_t out = i % width;
    y[i] = bias[out];
    for (std::size_t k = 0; k < width; ++k) y[i] += x[row * width + k] * weight[out * width + k];
  }
  return y;
}

Array linear_dx(const Array& dy, const Array& weight, std::size_t width) {
  Array dx(dy.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    for (std::size_t k = 0; k < width; ++k) dx[i / width * width + k] += dy[i] * weight[i % width * width + k];
  }
  return dx;
}

Array column_sums(const Array& dy, std::size_t width) {
  Array sums(width);
  for (std::size_t i = 0; i < dy.size(); ++i) sums[i % width] += dy[i];
  return sums;
}

Array linear_dw(const Array& dy, const Array& x, std::size_t width) {
  Array dw(width * width);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    for (std::size_t k = 0; k < width; ++k) dw[i % width * width + k] += dy[i] * x[i / width * width + k];
  }
  return dw;
}

template <class F>
Array map(const Array& a, F f) {
  Array result(a.size());
  std::transform(a.begin(), a.end(), result.begin(), f);
  return result;
}

}  // namespace

struct Interpreter::Machine {
  const Graph& graph;
  const Program& program;
  std::vector<Storage> values;
  std::vector<char> made;
  std::vector<std::vector<std::size_t>> streams = std::vector<std::vector<std::size_t>>(4);
  std::vector<std::size_t> next = std::vector<std::size_t>(4);
  std::vector<double> eagerness = std::vector<double>(4);

  const Tensor& tensor(ValueId id) const { return graph.tensors[at(program.values[at(id)].tensor)]; }
  const Array& in(const Instruction& instruction, std::size_t place) const {
    const ValueId id = instruction.inputs[place];
    MOTLEY_CHECK(id != kNone && values[at(id)] != nullptr, "input " + std::to_string(place));
    return *values[at(id)];
  }
  void set(ValueId id, Array array) {
    const ValueId alias = program.values[at(id)].alias_of;
    if (alias != kNone) {
      values[at(id)] = values[at(alias)];
      *values[at(id)] = std::move(array);
    } else {
      values[at(id)] = std::make_shared<Array>(std::move(array));
    }
    made[at(id)] = 1;
    const Value& value = program.values[at(id)];
    const std::size_t expected = at(static_cast<std::int32_t>(value.bytes.value / size_of(tensor(id).dtype).value));
    MOTLEY_CHECK(values[at(id)]->size() == expected, tensor(id).name + " has another size");
  }
  bool can_run(const Instruction& instruction) const {
    return std::all_of(instruction.inputs.begin(), instruction.inputs.end(),
                       [&](ValueId id) { return id == kNone || made[at(id)]; });
  }

  std::vector<Array> forward(const Instruction& instruction, const Op& op) const {
    const Array& a = in(instruction, 0);
    if (op.target == "aten::linear.default") return {linear(a, in(instruction, 1), in(instruction, 2))};
    if (op.target == "aten::relu.default") return {map(a, [](double v) { return std::max(v, 0.0); })};
    if (op.target == "double") return {map(a, [](double v) { return 2 * v; })};
    if (op.target == "aten::mul.Tensor") return {{a[0] * in(instruction, 1)[0]}};
    if (op.target == "aten::mean.default") {
      double sum = 0;
      for (double v : a) sum += v;
      return {{sum / static_cast<double>(a.size())}};
    }
    MOTLEY_CHECK(op.target == "aten::add.Tensor", op.target);
    const Array& b = in(instruction, 1);
    Array sum = a;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i % b.size()];
    return {sum};
  }

  std::vector<Array> backward(const Instruction& instruction, const Op& op) const {
    const Op& forward_op = graph.ops[at(op.forward)];
    const Array& dy = in(instruction, 0);
    const auto size = [&](std::int32_t place) {
      const Tensor& of = graph.tensors[at(forward_op.inputs[at(place)])];
      return static_cast<std::size_t>(element_count(of.shape).at(instruction.batch));
    };
    std::vector<Array> gradients;
    for (std::int32_t place : op.gradient_inputs) {
      const std::size_t count = size(place);
      if (op.target == "aten::linear.default") {
        const std::size_t width = size(2);
        gradients.push_back(place == 0   ? linear_dx(dy, in(instruction, 1), width)
                            : place == 1 ? linear_dw(dy, in(instruction, 1), width)
                                         : column_sums(dy, width));
      } else if (op.target == "aten::relu.default") {
        Array dx = dy;
        for (std::size_t i = 0; i < count; ++i) dx[i] *= in(instruction, 1)[i] > 0;
        gradients.push_back(dx);
      } else if (op.target == "double") {
        gradients.push_back(map(dy, [](double v) { return 2 * v; }));
      } else if (op.target == "aten::mul.Tensor") {
        gradients.push_back({dy[0] * in(instruction, static_cast<std::size_t>(2 - place))[0]});
      } else if (op.target == "aten::mean.default") {
        gradients.emplace_back(count, dy[0] / static_cast<double>(count));
      } else {
        gradients.push_back(count == dy.size() ? dy : column_sums(dy, count));
      }
    }
    return gradients;
  }

  void compute(const Instruction& instruction) {
    const Op& op = graph.ops[at(instruction.op)];
    if (op.kind == OpKind::kUpdate) {
      Array weights = in(instruction, 0);
      Array step = in(instruction, 1);
      if (instruction.inputs.size() > 2) {
        Array& state = *values[at(instruction.inputs[2])];
        for (std::size_t i = 0; i < step.size(); ++i) {
          state[i] = graph.optimizer.momentum * state[i] + step[i];
        }
        step = state;
      }
      for (std::size_t i = 0; i < step.size(); ++i) weights[i] -= graph.optimizer.learning_rate * step[i];
      set(instruction.outputs[0], weights);
      return;
    }
    const std::vector<Array> results =
        op.kind == OpKind::kForward ? forward(instruction, op) : backward(instruction, op);
    for (std::size_t i = 0; i < results.size(); ++i) set(instruction.outputs[i], results[i]);
  }

  void run(const Instruction& instruction) {
    const auto width = [&](ValueId id) {
      const Value& value = program.values[at(id)];
      return values[at(id)]->size() / static_cast<std::size_t>(value.end - value.begin);
    };
    switch (instruction.kind) {
      case InstructionKind::kSlice: {
        const Value& from = program.values[at(instruction.inputs[0])];
        const Value& to = program.values[at(instruction.outputs[0])];
        MOTLEY_CHECK(from.begin <= to.begin && to.end <= from.end, "slice outside its input");
        const Array& all = in(instruction, 0);
        const auto row = static_cast<std::ptrdiff_t>(width(instruction.inputs[0]));
        set(instruction.outputs[0],
            Array(all.begin() + (to.begin - from.begin) * row, all.begin() + (to.end - from.begin) * row));
        break;
      }
      case InstructionKind::kConcat: {
        Array joined;
        std::int64_t end = program.values[at(instruction.outputs[0])].begin;
        for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
          const Value& part = program.values[at(instruction.inputs[i])];
          MOTLEY_CHECK(part.begin == end, "parts do not tile");
          end = part.end;
          joined.insert(joined.end(), in(instruction, i).begin(), in(instruction, i).end());
        }
        MOTLEY_CHECK(end == program.values[at(instruction.outputs[0])].end, "parts do not tile");
        set(instruction.outputs[0], joined);
        break;
      }
      case InstructionKind::kSum: {
        Array sum = in(instruction, 0);
        for (std::size_t i = 1; i < instruction.inputs.size(); ++i) {
          for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += in(instruction, i)[k];
        }
        set(instruction.outputs[0], sum);
        break;
      }
      case InstructionKind::kScale:
        set(instruction.outputs[0], map(in(instruction, 0), [&](double v) { return v * instruction.scale; }));
        break;
      case InstructionKind::kFill: {
        const Value& value = program.values[at(instruction.outputs[0])];
        const auto count = element_count(tensor(instruction.outputs[0]).shape).at(value.end - value.begin);
        set(instruction.outputs[0], Array(static_cast<std::size_t>(count), instruction.scale));
        break;
      }
      default:
        compute(instruction);
    }
  }
};

Interpreter::Interpreter(const Graph& graph, const Deployment& deployment, std::uint32_t seed)
    : graph_(graph), deployment_(deployment), seed_(seed) {
  for (const Program& program : deployment.programs) {
    Machine machine{graph, program, std::vector<Storage>(program.values.size()), {}};
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      machine.streams[static_cast<std::size_t>(stream_of(program.instructions[i].kind))].push_back(i);
    }
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (!program.values[v].persistent) continue;
      const Tensor& tensor = graph.tensors[at(program.values[v].tensor)];
      const auto size = static_cast<std::size_t>(element_count(tensor.shape).at(0));
      machine.values[v] = std::make_shared<Array>(
          tensor.role == TensorRole::kParameter ? initial_value(tensor.name, size) : Array(size));
    }
    machines_.push_back(std::move(machine));
  }
}

Interpreter::~Interpreter() = default;

Array Interpreter::initial_value(const std::string& name, std::size_t size) {
  std::mt19937 random(static_cast<std::uint32_t>(std::hash<std::string>{}(name)));
  Array values(size);
  for (double& v : values) v = std::uniform_real_distribution<>(-0.5, 0.7)(random);
  return values;
}

Array Interpreter::parameter(const std::string& name, DeviceIndex device) const {
  for (const Machine& machine : machines_) {
    for (std::size_t v = 0; machine.program.device == device && v < machine.values.size(); ++v) {
      if (machine.program.values[v].persistent && machine.tensor(static_cast<ValueId>(v)).name == name) {
        return *machine.values[v];
      }
    }
  }
  return {};
}

void Interpreter::set_parameter(const std::string& name, const Array& value) {
  for (Machine& machine : machines_) {
    for (std::size_t v = 0; v < machine.values.size(); ++v) {
      if (machine.program.values[v].persistent && machine.tensor(static_cast<ValueId>(v)).name == name) {
        *machine.values[v] = value;
      }
    }
  }
}

double Interpreter::step(const Array& x) {
  std::mt19937 random(seed_++);
  std::map<std::tuple<DeviceIndex, DeviceIndex, std::int32_t>, Array> mail;
  std::size_t left = 0;
  const std::size_t row = x.size() / static_cast<std::size_t>(deployment_.batch);
  for (Machine& machine : machines_) {
    machine.made.assign(machine.values.size(), 0);
    machine.next.assign(4, 0);
    for (double& eager : machine.eagerness) eager = std::exp(std::uniform_real_distribution<>(-6, 6)(random));
    left += machine.program.instructions.size();
    for (std::size_t v = 0; v < machine.values.size(); ++v) machine.made[v] = machine.program.values[v].persistent;
    for (ValueId input : machine.program.inputs) {
      const Value& value = machine.program.values[at(input)];
      const auto first = x.begin() + value.begin * static_cast<std::ptrdiff_t>(row);
      machine.set(input, Array(first, first + (value.end - value.begin) * static_cast<std::ptrdiff_t>(row)));
    }
  }
  const auto head = [&](Machine& machine, std::size_t stream) -> const Instruction* {
    const std::size_t next = machine.next[stream];
    if (next == machine.streams[stream].size()) return nullptr;
    return &machine.program.instructions[machine.streams[stream][next]];
  };
  const auto on = [&](DeviceIndex device) -> Machine& {
    return *std::find_if(machines_.begin(), machines_.end(),
                         [&](const Machine& machine) { return machine.program.device == device; });
  };
  constexpr std::size_t kCollective = static_cast<std::size_t>(Stream::kCollective);
  while (left > 0) {
    std::vector<std::pair<Machine*, std::size_t>> able;
    for (Machine& machine : machines_) {
      for (std::size_t stream = 0; stream < 4; ++stream) {
        const Instruction* instruction = head(machine, stream);
        if (instruction == nullptr || !machine.can_run(*instruction)) continue;
        if (instruction->kind == InstructionKind::kReceive &&
            !mail.contains({instruction->peer, machine.program.device, instruction->tag})) {
          continue;
        }
        if (instruction->kind == InstructionKind::kAllReduce) {
          const auto& members = deployment_.collectives[at(instruction->collective)].members;
          const bool all = std::all_of(members.begin(), members.end(), [&](DeviceIndex member) {
            const Instruction* other = head(on(member), kCollective);
            return other != nullptr && other->collective == instruction->collective && on(member).can_run(*other);
          });
          if (!all) continue;
        }
        able.emplace_back(&machine, stream);
      }
    }
    MOTLEY_CHECK(!able.empty(), "deadlock with " + std::to_string(left) + " instructions left");
    std::vector<double> chances;
    for (const auto& [machine, stream] : able) chances.push_back(machine->eagerness[stream]);
    auto [machine, stream] = able[std::discrete_distribution<std::size_t>(chances.begin(), chances.end())(random)];
    const Instruction& instruction = *head(*machine, stream);
    const DeviceIndex device = machine->program.device;
    if (instruction.kind == InstructionKind::kSend) {
      mail[{device, instruction.peer, instruction.tag}] = machine->in(instruction, 0);
    } else if (instruction.kind == InstructionKind::kReceive) {
      machine->set(instruction.outputs[0], mail.at({instruction.peer, device, instruction.tag}));
    } else if (instruction.kind == InstructionKind::kAllReduce) {
      const std::vector<DeviceIndex> members = deployment_.collectives[at(instruction.collective)].members;
      for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
        Array sum(machine->in(instruction, i).size());
        for (DeviceIndex member : members) {
          const Instruction& theirs = *head(on(member), kCollective);
          for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += theirs.scale * on(member).in(theirs, i)[k];
        }
        for (DeviceIndex member : members) on(member).set(head(on(member), kCollective)->outputs[i], sum);
      }
      for (DeviceIndex member : members) ++on(member).next[kCollective];
      left -= members.size();
      continue;
    } else {
      machine->run(instruction);
    }
    ++machine->next[stream];
    --left;
  }
  double loss = 0;
  for (const Machine& machine : machines_) {
    for (const LossPart& part : machine.program.losses) loss += part.weight * (*machine.values[at(part.value)])[0];
  }
  return loss;
}

}  // namespace motley::support
