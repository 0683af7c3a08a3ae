#include "compiler/describe.h"

namespace motley {
namespace {

bool is_of_parameter(const Graph& graph, const Tensor& tensor) {
  return tensor.role == TensorRole::kGradient &&
         graph.tensors[static_cast<std::size_t>(tensor.gradient_of)].role == TensorRole::kParameter;
}

Bytes& message_total(DeploymentSummary& summary, const Graph& graph, const Tensor& tensor) {
  if (tensor.role == TensorRole::kParameter) return summary.parameters;
  if (is_of_parameter(graph, tensor)) return summary.parameter_gradients;
  return tensor.role == TensorRole::kGradient ? summary.activation_gradients : summary.activations;
}

std::string line(const char* what, Bytes bytes) {
  return bytes.value == 0 ? "" : "  " + std::string(what) + ": " + to_string(bytes) + "\n";
}

}  // namespace

DeploymentSummary summarize(const Deployment& deployment, const Graph& graph) {
  DeploymentSummary summary;
  summary.collectives = static_cast<std::int64_t>(deployment.collectives.size());
  std::vector<char> counted(deployment.collectives.size());
  for (const Program& program : deployment.programs) {
    DeploymentSummary::Device device;
    device.device = program.device;
    device.instructions = static_cast<std::int64_t>(program.instructions.size());
    for (const Instruction& instruction : program.instructions) {
      const auto value = [&](ValueId id) -> const Value& { return program.values[static_cast<std::size_t>(id)]; };
      const auto tensor = [&](ValueId id) -> const Tensor& {
        return graph.tensors[static_cast<std::size_t>(value(id).tensor)];
      };
      switch (instruction.kind) {
        case InstructionKind::kCompute:
          ++device.ops;
          break;
        case InstructionKind::kSend:
          ++summary.messages;
          device.sent += value(instruction.inputs[0]).bytes;
          message_total(summary, graph, tensor(instruction.inputs[0])) += value(instruction.inputs[0]).bytes;
          break;
        case InstructionKind::kReceive:
          device.received += value(instruction.outputs[0]).bytes;
          break;
        case InstructionKind::kAllReduce: {
          const auto index = static_cast<std::size_t>(instruction.collective);
          const Bytes bytes = deployment.collectives[index].bytes;
          device.reduced += bytes;
          if (counted[index]) break;
          counted[index] = 1;
          const bool gradients = is_of_parameter(graph, tensor(instruction.inputs[0]));
          (gradients ? summary.reduced_gradients : summary.reduced_values) += bytes;
          break;
        }
        default:
          break;
      }
    }
    summary.devices.push_back(device);
  }
  return summary;
}

std::string describe(const Deployment& deployment, const Graph& graph, const Cluster& cluster) {
  const DeploymentSummary summary = summarize(deployment, graph);
  std::string text = deployment.strategy_name + ", batch " + std::to_string(deployment.batch) + ": " +
                     std::to_string(summary.messages) + " messages and " + std::to_string(summary.collectives) +
                     " collectives per iteration\n";
  text += line("activations sent", summary.activations);
  text += line("their gradients sent", summary.activation_gradients);
  text += line("gradients sent to parameter servers", summary.parameter_gradients);
  text += line("weights sent back", summary.parameters);
  text += line("gradients all-reduced, per device", summary.reduced_gradients);
  text += line("other values all-reduced, per device", summary.reduced_values);
  for (const DeploymentSummary::Device& device : summary.devices) {
    text += "  " + cluster.devices[static_cast<std::size_t>(device.device)].name + ": " +
            std::to_string(device.instructions) + " instructions (" + std::to_string(device.ops) + " ops), sends " +
            to_string(device.sent) + ", receives " + to_string(device.received) + ", reduces " +
            to_string(device.reduced) + "\n";
  }
  return text;
}

}  // namespace motley
