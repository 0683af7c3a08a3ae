#pragma once

// Checkpoint files as wholes (docs/checkpoint.md): what the coordinator makes of the devices' parts.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace motley {

// The iterations that the model of a checkpoint has done. Throws as SafetensorsFile does, and Error(kInvalidInput) for
// a file that is no checkpoint.
std::int64_t checkpoint_iteration(const std::filesystem::path& checkpoint);

// Joins the devices' parts into one file, with the metadata of a checkpoint.
void join_parts(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& to,
                std::int64_t iteration, const std::string& graph_fingerprint);

}  // namespace motley
