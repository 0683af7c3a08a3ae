#pragma once

// Checkpoint files as wholes (docs/checkpoint.md): what the coordinator makes of the devices' parts, and whether a
// training can go on from one.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/safetensors.h"

namespace motley {

// Whether a checkpoint holds it: a parameter, a buffer or a state of the optimizer.
bool is_kept(const Tensor& tensor);
std::vector<std::int64_t> sizes_of(const Tensor& kept);  // whatever the batch size

// Throws Error(kInvalidInput) naming `source` and the tensor unless what was found has dtype and shape of the model's.
void check_stored(const NamedTensor& found, const Tensor& expected, const std::string& source);

// Checks that the graph's training can go on from a checkpoint: it has what is kept of the graph, and nothing else.
// Returns the iterations that its model has done. Throws as SafetensorsFile does, and Error(kInvalidInput) naming the
// file and the first tensor that is missing, of another shape or dtype, or not the model's.
std::int64_t check_checkpoint(const std::filesystem::path& checkpoint, const Graph& graph);

// Joins the devices' parts into one file, with the metadata of a checkpoint.
void join_parts(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& to,
                std::int64_t iteration, const std::string& graph_fingerprint);

}  // namespace motley
