#pragma once

// The network of a policy: attention within each graph (op groups, device tokens) and across, biased by what joins
// their vertices, then decisions that point at choices. Only strategy/policy/ includes this: it needs LibTorch.
//
// Vaswani et al., Attention Is All You Need, 2017 (attention); Graphormer (Ying et al., 2021: edges as biases of
// attention); Vinyals et al., Pointer Networks, 2015; Kool et al., Attention, Learn to Solve Routing Problems!, 2019
// (an encoder that runs once and a light decoder for every step). There is no position among devices: tokens that are
// alike are treated alike.

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <string>
#include <vector>

#include "strategy/policy/draft.h"

namespace motley {

inline constexpr std::int64_t kWidth = 96;
inline constexpr std::int64_t kHeads = 4;
inline constexpr std::int64_t kLayers = 2;

// Multi-head attention of `from` [n, width] to `to` [m, width], with a bias from the features of each pair [n, m, f].
class BiasedAttention : public torch::nn::Module {
 public:
  explicit BiasedAttention(std::int64_t pair_features);
  torch::Tensor forward(const torch::Tensor& from, const torch::Tensor& to, const torch::Tensor& pairs);

 private:
  torch::nn::LayerNorm from_norm_{nullptr}, to_norm_{nullptr};
  torch::nn::Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, bias_{nullptr}, out_{nullptr};
};

class FeedForward : public torch::nn::Module {
 public:
  FeedForward();
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear in_{nullptr}, out_{nullptr};
};

class GraphLayer : public torch::nn::Module {
 public:
  GraphLayer();
  void forward(torch::Tensor& groups, torch::Tensor& tokens, const torch::Tensor& edges, const torch::Tensor& links,
               const torch::Tensor& cross);

 private:
  std::shared_ptr<BiasedAttention> within_groups_, within_tokens_, to_tokens_, to_groups_;
  std::shared_ptr<FeedForward> groups_, tokens_;
};

// What the encoder made of a situation.
struct Encoded {
  torch::Tensor groups;   // [places, width]: their part of a choice's score
  torch::Tensor query;    // [places, width]
  torch::Tensor tokens;   // [tokens, width]
  torch::Tensor passage;  // [kPassages]: scores
};
// ... and of choices there.
struct EncodedChoices {
  torch::Tensor choices;  // [choices, width]: their part of a score
  torch::Tensor key;      // [choices, width]
};

class PolicyNetwork : public torch::nn::Module {
 public:
  PolicyNetwork();

  Encoded encode(const Situation& situation);
  EncodedChoices encode(const Encoded& encoded, const Choices& choices);
  // Scores of choices for some places: features [n, choices, kStepFeatures] of Draft::look; hidden
  // [n, choices, width]; scores [n, choices].
  struct Scores {
    torch::Tensor hidden;
    torch::Tensor choice;
  };
  Scores score(const Encoded& encoded, const EncodedChoices& choices, const torch::Tensor& places,
               const torch::Tensor& features);
  // Of the hidden rows of choices that were made [n, width]: scores [n, kShareModes + kGradientMethods + kRecomputes].
  torch::Tensor rest(const torch::Tensor& hidden) { return rest_->forward(hidden); }

  torch::Device device() const { return group_in_->weight.device(); }

 private:
  torch::nn::Linear group_in_{nullptr}, token_in_{nullptr}, choice_in_{nullptr}, choice_tokens_{nullptr},
      from_group_{nullptr}, from_choice_{nullptr}, from_step_{nullptr}, middle_{nullptr}, out_{nullptr},
      query_{nullptr}, key_{nullptr}, passage_in_{nullptr}, passage_out_{nullptr}, rest_{nullptr};
  torch::nn::LayerNorm group_norm_{nullptr}, token_norm_{nullptr};
  std::vector<std::shared_ptr<GraphLayer>> layers_;
};

// For the calling thread: sums are in an order that does not depend on the number of cores. Cases run side by side
// instead.
void use_one_thread();

// Rows of floats as a tensor on the network's device.
torch::Tensor as_tensor(const std::vector<float>& values, std::vector<std::int64_t> sizes, torch::Device device);

}  // namespace motley
