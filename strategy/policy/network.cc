#include "strategy/policy/network.h"

#include <ATen/Parallel.h>
#include <torch/nn/functional/activation.h>

#include <cmath>

namespace motley {

namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;
using torch::nn::LinearOptions;

Linear without_bias(std::int64_t in, std::int64_t out) { return Linear(LinearOptions(in, out).bias(false)); }
LayerNorm norm() { return LayerNorm(LayerNormOptions({kWidth})); }

}  // namespace

at::Tensor as_tensor(const std::vector<float>& values, std::vector<std::int64_t> sizes, torch::Device device) {
  return torch::tensor(values).view(sizes).to(device);
}

void use_one_thread() { at::set_num_threads(1); }

BiasedAttention::BiasedAttention(std::int64_t pair_features) {
  from_norm_ = register_module("from_norm", norm());
  to_norm_ = register_module("to_norm", norm());
  query_ = register_module("query", Linear(kWidth, kWidth));
  key_ = register_module("key", without_bias(kWidth, kWidth));
  value_ = register_module("value", Linear(kWidth, kWidth));
  bias_ = register_module("bias", Linear(pair_features, kHeads));
  out_ = register_module("out", Linear(kWidth, kWidth));
}

at::Tensor BiasedAttention::forward(const at::Tensor& from, const at::Tensor& to, const at::Tensor& pairs) {
  const auto by_head = [](const at::Tensor& x) { return x.view({x.size(0), kHeads, kWidth / kHeads}).transpose(0, 1); };
  const at::Tensor there = to_norm_->forward(to);
  const at::Tensor query = by_head(query_->forward(from_norm_->forward(from)));
  const at::Tensor key = by_head(key_->forward(there)), value = by_head(value_->forward(there));
  const at::Tensor bias = bias_->forward(pairs).permute({2, 0, 1});
  const at::Tensor scores = torch::baddbmm(bias, query, key.transpose(1, 2), 1.0, 1 / std::sqrt(kWidth / kHeads));
  const at::Tensor read = torch::bmm(scores.softmax(-1), value).transpose(0, 1).reshape({from.size(0), kWidth});
  return from + out_->forward(read);
}

FeedForward::FeedForward() {
  norm_ = register_module("norm", norm());
  in_ = register_module("in", Linear(kWidth, 2 * kWidth));
  out_ = register_module("out", Linear(2 * kWidth, kWidth));
}

at::Tensor FeedForward::forward(const at::Tensor& x) {
  return x + out_->forward(torch::relu(in_->forward(norm_->forward(x))));
}

GraphLayer::GraphLayer() {
  within_groups_ = register_module("within_groups", std::make_shared<BiasedAttention>(kEdgeFeatures));
  within_tokens_ = register_module("within_tokens", std::make_shared<BiasedAttention>(kLinkFeatures));
  to_tokens_ = register_module("to_tokens", std::make_shared<BiasedAttention>(kCrossFeatures));
  to_groups_ = register_module("to_groups", std::make_shared<BiasedAttention>(kCrossFeatures));
  groups_ = register_module("groups", std::make_shared<FeedForward>());
  tokens_ = register_module("tokens", std::make_shared<FeedForward>());
}

void GraphLayer::forward(at::Tensor& groups, at::Tensor& tokens, const at::Tensor& edges, const at::Tensor& links,
                         const at::Tensor& cross) {
  groups = within_groups_->forward(groups, groups, edges);
  tokens = within_tokens_->forward(tokens, tokens, links);
  const at::Tensor read = to_tokens_->forward(groups, tokens, cross);
  tokens = tokens_->forward(to_groups_->forward(tokens, groups, cross.transpose(0, 1)));
  groups = groups_->forward(read);
}

PolicyNetwork::PolicyNetwork() {
  group_in_ = register_module("group_in", Linear(kGroupFeatures, kWidth));
  token_in_ = register_module("token_in", Linear(kTokenFeatures, kWidth));
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    layers_.push_back(register_module("layer" + std::to_string(layer), std::make_shared<GraphLayer>()));
  }
  group_norm_ = register_module("group_norm", norm());
  token_norm_ = register_module("token_norm", norm());
  choice_in_ = register_module("choice_in", Linear(kChoiceFeatures, kWidth));
  choice_tokens_ = register_module("choice_tokens", without_bias(kWidth, kWidth));
  from_group_ = register_module("from_group", Linear(kWidth, kWidth));
  from_choice_ = register_module("from_choice", without_bias(kWidth, kWidth));
  from_step_ = register_module("from_step", without_bias(kStepFeatures, kWidth));
  middle_ = register_module("middle", Linear(kWidth, kWidth));
  out_ = register_module("out", without_bias(kWidth, 1));
  query_ = register_module("query", without_bias(kWidth, kWidth));
  key_ = register_module("key", without_bias(kWidth, kWidth));
  passage_in_ = register_module("passage_in", Linear(2 * kWidth, kWidth));
  passage_out_ = register_module("passage_out", Linear(kWidth, kPassages));
  rest_ = register_module("rest", Linear(kWidth, kShareModes + kGradientMethods + kRecomputes));
}

Encoded PolicyNetwork::encode(const Situation& situation) {
  use_one_thread();
  const auto places = static_cast<std::int64_t>(situation.places());
  const auto count = static_cast<std::int64_t>(situation.tokens.size());
  const torch::Device where = device();
  const at::Tensor edges = as_tensor(situation.edge_features, {places, places, kEdgeFeatures}, where);
  const at::Tensor links = as_tensor(situation.link_features, {count, count, kLinkFeatures}, where);
  const at::Tensor cross = as_tensor(situation.cross_features, {places, count, kCrossFeatures}, where);
  at::Tensor groups = group_in_->forward(as_tensor(situation.group_features, {places, kGroupFeatures}, where));
  at::Tensor tokens = token_in_->forward(as_tensor(situation.token_features, {count, kTokenFeatures}, where));
  for (const auto& layer : layers_) layer->forward(groups, tokens, edges, links, cross);
  groups = group_norm_->forward(groups);
  tokens = token_norm_->forward(tokens);
  const at::Tensor whole = torch::cat({groups.mean(0), tokens.mean(0)});
  return {from_group_->forward(groups), query_->forward(groups), tokens,
          passage_out_->forward(torch::relu(passage_in_->forward(whole)))};
}

EncodedChoices PolicyNetwork::encode(const Encoded& encoded, const Choices& choices) {
  const auto count = static_cast<std::int64_t>(choices.size());
  const at::Tensor shares = as_tensor(choices.tokens(), {count, encoded.tokens.size(0)}, device());
  const at::Tensor features = as_tensor(choices.features(), {count, kChoiceFeatures}, device());
  const at::Tensor sets =
      torch::relu(choice_in_->forward(features) + choice_tokens_->forward(torch::mm(shares, encoded.tokens)));
  return {from_choice_->forward(sets), key_->forward(sets)};
}

PolicyNetwork::Scores PolicyNetwork::score(const Encoded& encoded, const EncodedChoices& choices,
                                           const at::Tensor& places, const at::Tensor& features) {
  const at::Tensor groups = encoded.groups.index_select(0, places).unsqueeze(1);
  const at::Tensor hidden =
      torch::relu(middle_->forward(torch::relu(groups + choices.choices + from_step_->forward(features))));
  const at::Tensor pointed = torch::mm(encoded.query.index_select(0, places), choices.key.t()) / std::sqrt(kWidth);
  return {hidden, out_->forward(hidden).squeeze(-1) + pointed};
}

}  // namespace motley
