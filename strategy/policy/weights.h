#pragma once

// A policy's weights, fresh and in files (docs/policy.md). Needs LibTorch.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/safetensors.h"
#include "strategy/policy/network.h"

namespace motley {

inline constexpr const char* kPolicyFormat = "1";  // "motley_policy" in the file's metadata

// Weights drawn by the seed alone. On the CPU.
std::shared_ptr<PolicyNetwork> fresh_network(std::uint64_t seed);

// By name, in the network's order.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;
NamedTensors weights_of(PolicyNetwork& network);

// Sets each tensor to what the file has by that name. Throws Error(kInvalidInput) naming the file and what it lacks.
void load_tensors(const NamedTensors& tensors, const SafetensorsFile& file, const std::string& path);
void load_weights(PolicyNetwork& network, const std::filesystem::path& path);

// The tensors as the writer takes them; `storage` keeps their bytes.
std::vector<NamedTensor> on_file(const NamedTensors& tensors, std::vector<torch::Tensor>& storage);

}  // namespace motley
