#include "simulator/process_buffers.h"

#include <algorithm>

#include "runtime/gloo_scratch.h"

namespace motley {

ProcessBuffers process_buffers(const Graph& graph, const Deployment& deployment, const Program& program) {
  ProcessBuffers buffers;
  for (ValueId input : program.inputs) buffers.inputs += program.values[input].bytes;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kAllReduce) continue;
    const Collective& collective = deployment.collectives[instruction.collective];
    const DType dtype = graph.tensors[program.values[instruction.inputs[0]].tensor].dtype;
    buffers.collective =
        std::max(buffers.collective, gloo_scratch(collective.bytes, collective.members.size(), size_of(dtype)));
  }
  return buffers;
}

}  // namespace motley
