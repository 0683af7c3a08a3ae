#include "agent/model_state.h"

#include <algorithm>
#include <map>

#include "agent/checkpoint.h"
#include "base/error.h"
#include "graph/pt2_file.h"

namespace motley {

std::vector<TensorId> saved_by(const Graph& graph, const Deployment& deployment, DeviceIndex device) {
  std::vector<char> seen(graph.tensors.size());
  std::vector<TensorId> mine;
  for (const Program& program : deployment.programs) {
    for (const Value& value : program.values) {
      if (!value.persistent || seen[value.tensor] || !is_kept(graph.tensors[value.tensor])) continue;
      seen[value.tensor] = 1;
      if (program.device == device) mine.push_back(value.tensor);
    }
  }
  return mine;
}

ModelState::ModelState(const Graph& graph, const Program& program, Executor& executor)
    : graph_(graph), program_(program), executor_(executor), handles_(program.values.size()) {}

void ModelState::set(ValueId value, const NamedTensor& tensor, const std::string& source) {
  check_stored(tensor, graph_.tensors[program_.values[value].tensor], source);
  handles_[value] = executor_.from_host({tensor.dtype, tensor.shape, tensor.bytes});
}

void ModelState::load_model(const std::filesystem::path& model) {
  const Pt2File file = Pt2File::open(model);
  for (std::size_t i = 0; i < program_.values.size(); ++i) {
    const auto value = static_cast<ValueId>(i);
    if (!program_.values[i].persistent) continue;
    const Tensor& tensor = graph_.tensors[program_.values[i].tensor];
    if (tensor.role == TensorRole::kOptimizerState) {
      handles_[i] = executor_.fill(program_.values[i].tensor, 1, 0.0);
      continue;
    }
    const std::string bytes = file.read(tensor.name);
    const StoredTensor& stored = file.tensors().at(tensor.name);
    set(value, {tensor.name, stored.dtype, stored.sizes, std::as_bytes(std::span(bytes))}, model.string());
  }
}

void ModelState::load_checkpoint(const std::filesystem::path& checkpoint) {
  const SafetensorsFile file(checkpoint);
  for (std::size_t i = 0; i < program_.values.size(); ++i) {
    if (!program_.values[i].persistent) continue;
    const Tensor& tensor = graph_.tensors[program_.values[i].tensor];
    if (!is_kept(tensor)) continue;
    const NamedTensor* found = file.find(tensor.name);
    if (found == nullptr) {
      throw Error(ErrorKind::kInvalidInput, checkpoint.string() + " has no tensor '" + tensor.name +
                                                "': it is of another model or optimizer, or holds weights alone");
    }
    set(static_cast<ValueId>(i), *found, checkpoint.string());
    MappedFile::give_back(found->bytes);
  }
}

void ModelState::save(const std::filesystem::path& path, const std::vector<TensorId>& tensors,
                      bool with_optimizer) const {
  std::vector<NamedTensor> named;
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < program_.values.size(); ++i) {
    const TensorId id = program_.values[i].tensor;
    if (!program_.values[i].persistent || std::find(tensors.begin(), tensors.end(), id) == tensors.end()) continue;
    const Tensor& tensor = graph_.tensors[id];
    if (tensor.role == TensorRole::kOptimizerState && !with_optimizer) continue;
    named.push_back({tensor.name, tensor.dtype, sizes_of(tensor), {}});
    place[tensor.name] = i;
  }
  HostTensor host;  // one at a time: all would be as much as the device has of them
  write_safetensors(path, std::move(named), {}, [&](const NamedTensor& tensor) -> std::span<const std::byte> {
    host = {};
    host = executor_.to_host(handles_[place.at(tensor.name)]);
    return host.bytes;
  });
}

}  // namespace motley
