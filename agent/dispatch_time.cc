#include "agent/dispatch_time.h"

#include <vector>

#include "agent/program_runner.h"
#include "base/statistics.h"
#include "runtime/gloo_communicator.h"

namespace motley {
namespace {

constexpr std::int64_t kFloats = std::int64_t{1} << 20;
constexpr int kInstructions = 32;
constexpr int kRepeats = 5;

// Scales one tensor again and again.
Program scaling_program() {
  Program program;
  program.values.resize(kInstructions + 1);
  program.inputs = {0};
  for (ValueId i = 0; i < kInstructions; ++i) {
    program.instructions.push_back(
        {.kind = InstructionKind::kScale, .inputs = {i}, .outputs = {i + 1}, .releases = {i}, .scale = 0.5});
  }
  return program;
}

}  // namespace

Seconds dispatch_time(Executor& executor, double share) {
  const Graph graph;
  const Program program = scaling_program();
  const auto communicator = make_gloo_communicator({.store = make_memory_store()});
  std::vector<TensorHandle> state(program.values.size());
  ProgramRunner runner(graph, program, executor, *communicator, state, {.rank_of_device = {0}, .granted_share = share});
  const HostTensor host = make_host_tensor(DType::kFloat32, {kFloats});
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    std::vector<TensorHandle> inputs{executor.from_host(host.view())};
    const Seconds before = thread_cpu_time();
    const IterationResult result = runner.run(std::move(inputs), true);
    Seconds dispatch = (thread_cpu_time() - before) / share;
    for (const MeasuredEvent& event : result.events) dispatch -= event.work;
    seconds.push_back(dispatch.value / kInstructions);
  }
  return Seconds(median(seconds));
}

}  // namespace motley
