#include "agent/checkpoint.h"

#include "agent/safetensors.h"
#include "base/error.h"

namespace motley {
namespace {

constexpr const char* kFormat = "motley-checkpoint-1";

}  // namespace

std::int64_t checkpoint_iteration(const std::filesystem::path& checkpoint) {
  const SafetensorsFile file(checkpoint);
  const auto format = file.metadata().find("format");
  const auto iteration = file.metadata().find("iteration");
  if (format == file.metadata().end() || format->second != kFormat || iteration == file.metadata().end() ||
      iteration->second.empty() || iteration->second.size() > 18 ||
      iteration->second.find_first_not_of("0123456789") != std::string::npos) {
    throw Error(ErrorKind::kInvalidInput, checkpoint.string() + " is not a checkpoint of motley (" + kFormat + ")");
  }
  return std::stoll(iteration->second);
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
