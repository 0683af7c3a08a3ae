#include "bench/one_device.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace motley {

OneDevice::OneDevice(const Graph& graph, Executor& executor, std::int64_t batch, const std::vector<TensorId>& keep)
    : graph_(graph), executor_(executor), batch_(batch), values_(graph.tensors.size()), releases_(graph.ops.size()) {
  std::vector<OpId> last_use(graph.tensors.size(), kNone);
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    for (const std::vector<TensorId>& tensors : {graph.ops[id].inputs, graph.ops[id].outputs}) {
      for (TensorId tensor : tensors) {
        if (tensor != kNone) last_use[tensor] = id;
      }
    }
  }
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    const TensorRole role = graph.tensors[id].role;
    const bool transient = role == TensorRole::kActivation || role == TensorRole::kGradient;
    const bool kept = id == graph.loss || std::find(keep.begin(), keep.end(), id) != keep.end();
    if (transient && !kept && last_use[id] != kNone) releases_[last_use[id]].push_back(id);
    if (role == TensorRole::kOptimizerState) values_[id] = executor.fill(id, batch, 0);
  }
}

void OneDevice::set(TensorId tensor, TensorHandle value) { values_[tensor] = std::move(value); }

void OneDevice::iterate() {
  for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
    const Tensor& tensor = graph_.tensors[id];
    const bool seed = tensor.gradient_of == graph_.loss && tensor.producer == kNone;
    if (seed && graph_.loss != kNone) values_[id] = executor_.fill(id, batch_, 1.0);
  }
  for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
    const Op& op = graph_.ops[id];
    std::vector<TensorHandle> inputs(op.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (op.inputs[i] != kNone) inputs[i] = values_[op.inputs[i]];
    }
    for (TensorId tensor : releases_[id]) values_[tensor].reset();
    std::vector<TensorHandle> outputs = executor_.run(id, batch_, std::move(inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const TensorId output = op.outputs[i];
      if (output == kNone) continue;
      const bool dropped = std::find(releases_[id].begin(), releases_[id].end(), output) != releases_[id].end();
      if (!dropped) values_[output] = std::move(outputs[i]);
    }
  }
}

void load_state(const Graph& graph, const Pt2File& file, Executor& executor, OneDevice& device) {
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    const Tensor& tensor = graph.tensors[id];
    const bool stored = tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kBuffer ||
                        tensor.role == TensorRole::kConstant;
    if (!stored || graph.consumers[id].empty()) continue;
    const std::string bytes = file.read(tensor.name);
    const StoredTensor& entry = file.tensors().at(tensor.name);
    device.set(id, executor.from_host({entry.dtype, entry.sizes, std::as_bytes(std::span(bytes))}));
  }
}

void load_inputs(const Graph& graph, const SafetensorsFile& file, Executor& executor, OneDevice& device) {
  for (TensorId id : graph.inputs) {
    const NamedTensor* input = file.find("input." + graph.tensors[id].name);
    if (input == nullptr) throw Error(ErrorKind::kNotFound, "no input." + graph.tensors[id].name + " in the data file");
    device.set(id, executor.from_host({input->dtype, input->shape, input->bytes}));
  }
}

}  // namespace motley
