#include "strategy/policy/weights.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstring>

#include "base/error.h"

namespace motley {

std::shared_ptr<PolicyNetwork> fresh_network(std::uint64_t seed) {
  auto network = std::make_shared<PolicyNetwork>();
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const torch::NoGradGuard no_gradients;
  for (auto& [name, weight] : weights_of(*network)) {
    if (weight.dim() == 1) {
      weight.fill_(name.ends_with("norm.weight") ? 1 : 0);
    } else {
      const double reach = 1 / std::sqrt(static_cast<double>(weight.size(1)));
      weight.uniform_(-reach, reach, generator);
    }
  }
  return network;
}

NamedTensors weights_of(PolicyNetwork& network) {
  NamedTensors tensors;
  for (const auto& entry : network.named_parameters()) tensors.emplace_back(entry.key(), entry.value());
  return tensors;
}

void load_tensors(const NamedTensors& tensors, const SafetensorsFile& file, const std::string& path) {
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : tensors) {
    const NamedTensor* const found = file.find(name);
    if (found == nullptr || found->dtype != DType::kFloat32 || tensor.sizes() != at::IntArrayRef(found->shape)) {
      throw Error(ErrorKind::kInvalidInput, path + ": has no \"" + name +
                                                "\" of this policy's shape: give a file that " +
                                                "`motley train-policy` of this version wrote");
    }
    torch::Tensor values = torch::empty(tensor.sizes());
    std::memcpy(values.data_ptr(), found->bytes.data(), found->bytes.size());
    torch::Tensor(tensor).copy_(values);
  }
}

void load_weights(PolicyNetwork& network, const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  load_tensors(weights_of(network), file, path.string());
}

std::vector<NamedTensor> on_file(const NamedTensors& tensors, std::vector<torch::Tensor>& storage) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors) {
    storage.push_back(tensor.detach().to(torch::kCPU).contiguous());
    const torch::Tensor& values = storage.back();
    result.push_back({name,
                      DType::kFloat32,
                      values.sizes().vec(),
                      {static_cast<const std::byte*>(values.data_ptr()), values.nbytes()}});
  }
  return result;
}

}  // namespace motley
