#pragma once

// The learned policy: a graph neural network that proposes strategies for any model on any cluster, and decides parts
// of one anew (docs/policy.md). It reads what strategy/policy/situation.h says of the two and decides place by place,
// as strategy/policy/draft.h has it, so that every decision sees those before it. The same code decides all of a
// strategy or, given the rest, a part of it. Its weights are a safetensors file.
//
// No part of it but the sources of this folder sees LibTorch.

#include <filesystem>
#include <memory>

#include "strategy/search/prior.h"

namespace motley {

class PolicyNetwork;

class Policy : public Prior {
 public:
  // Weights of nothing but chance: to train, and to compare with.
  explicit Policy(std::uint64_t seed);
  // Throws Error as SafetensorsFile does, and Error(kInvalidInput) naming the file when its tensors are not this
  // network's.
  explicit Policy(const std::filesystem::path& weights);
  ~Policy() override;

  std::unique_ptr<Guide> guide(const Evaluator& evaluator) const override;

  PolicyNetwork& network() const { return *network_; }

 private:
  std::shared_ptr<PolicyNetwork> network_;
};

}  // namespace motley
