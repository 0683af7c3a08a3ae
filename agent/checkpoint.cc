#include "agent/checkpoint.h"

#include <map>
#include <set>

#include "base/error.h"

namespace motley {
namespace {

constexpr const char* kFormat = "motley-checkpoint-1";

std::string text(DType dtype, const std::vector<std::int64_t>& sizes) {
  std::string text = to_string(dtype) + " [";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text + "]";
}

std::int64_t iteration_of(const SafetensorsFile& file, const std::string& path) {
  const auto format = file.metadata().find("format");
  const auto iteration = file.metadata().find("iteration");
  if (format == file.metadata().end() || format->second != kFormat || iteration == file.metadata().end() ||
      iteration->second.empty() || iteration->second.size() > 18 ||
      iteration->second.find_first_not_of("0123456789") != std::string::npos) {
    throw Error(ErrorKind::kInvalidInput,
                path + ": not a checkpoint of motley: its metadata say no format " + kFormat + " with an iteration");
  }
  return std::stoll(iteration->second);
}

}  // namespace

bool is_kept(const Tensor& tensor) {
  return tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kBuffer ||
         tensor.role == TensorRole::kOptimizerState;
}

std::vector<std::int64_t> sizes_of(const Tensor& kept) {
  std::vector<std::int64_t> sizes;
  for (const BatchExpr& size : kept.shape) sizes.push_back(size.at(1));
  return sizes;
}

void check_stored(const NamedTensor& found, const Tensor& expected, const std::string& source) {
  const std::vector<std::int64_t> sizes = sizes_of(expected);
  if (found.dtype == expected.dtype && found.shape == sizes) return;
  throw Error(ErrorKind::kInvalidInput, source + ": '" + expected.name + "' is " + text(found.dtype, found.shape) +
                                            " there, but " + text(expected.dtype, sizes) +
                                            " in the model: it is of another model");
}

std::int64_t check_checkpoint(const std::filesystem::path& checkpoint, const Graph& graph) {
  const SafetensorsFile file(checkpoint);
  const std::int64_t iteration = iteration_of(file, checkpoint.string());
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kInvalidInput, checkpoint.string() + ": " + why);
  };
  std::set<TensorId> used;  // what no op uses is on no device
  for (const Op& op : graph.ops) used.insert(op.inputs.begin(), op.inputs.end());
  std::map<std::string, TensorId> kept;
  for (const TensorId id : used) {
    if (is_kept(graph.tensors[id])) kept[graph.tensors[id].name] = id;
  }
  for (const auto& [name, id] : kept) {
    const NamedTensor* found = file.find(name);
    if (found != nullptr) {
      check_stored(*found, graph.tensors[id], checkpoint.string());
    } else if (graph.tensors[id].role == TensorRole::kOptimizerState) {
      refuse("there is no '" + name + "' in it: it holds weights alone, or is of another optimizer");
    } else {
      refuse("there is no '" + name + "' in it: it is of another model");
    }
  }
  for (const NamedTensor& tensor : file.tensors()) {
    if (!kept.contains(tensor.name)) {
      refuse("'" + tensor.name + "' in it is not of this training: it is of another model or optimizer");
    }
  }
  return iteration;
}

void join_parts(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& to,
                std::int64_t iteration, const std::string& graph_fingerprint) {
  std::vector<SafetensorsFile> files;
  std::vector<NamedTensor> tensors;
  files.reserve(parts.size());
  for (const auto& part : parts) files.emplace_back(part);
  for (const SafetensorsFile& file : files) {
    tensors.insert(tensors.end(), file.tensors().begin(), file.tensors().end());
  }
  write_safetensors(to, std::move(tensors),
                    {{"format", kFormat}, {"iteration", std::to_string(iteration)}, {"graph", graph_fingerprint}});
}

}  // namespace motley
