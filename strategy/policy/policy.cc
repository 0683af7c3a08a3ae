#include "strategy/policy/policy.h"

#include <torch/utils.h>

#include <algorithm>

#include "strategy/policy/decide.h"
#include "strategy/policy/weights.h"

namespace motley {

namespace {

// Of the proposals after the likeliest one, in turn: near it, and further away.
constexpr double kTemperatures[] = {0.3, 0.6, 1.0};

class PolicyGuide : public Guide {
 public:
  PolicyGuide(std::shared_ptr<PolicyNetwork> network, const Evaluator& evaluator)
      : network_(std::move(network)), situation_(evaluator), choices_(situation_) {
    const torch::NoGradGuard no_gradients;
    encoded_ = network_->encode(situation_);
    encoded_choices_ = network_->encode(encoded_, choices_);
  }

  std::vector<Strategy> propose(std::size_t count, std::uint64_t seed) const override {
    Draw draw(seed);
    std::vector<double> temperatures;
    std::vector<Draft> drafts;
    for (std::size_t i = 0; i < count; ++i) {
      temperatures.push_back(i == 0 ? 0 : kTemperatures[(i - 1) % std::size(kTemperatures)]);
      drafts.emplace_back(situation_, choices_, draw_passage(encoded_, situation_, temperatures.back(), draw));
    }
    decide(*network_, encoded_, encoded_choices_, situation_.all_places(), drafts, temperatures, draw);
    std::vector<Strategy> strategies;
    for (const Draft& draft : drafts) strategies.push_back(draft.strategy());
    return strategies;
  }

  std::vector<GroupDecision> resample(const Strategy& from, std::span<const GroupId> groups,
                                      std::uint64_t seed) const override {
    Draw draw(seed);
    std::vector<char> open(situation_.places(), 0);
    std::vector<std::int32_t> places;
    for (const GroupId group : groups) {
      places.push_back(situation_.place_of[group]);
      open[places.back()] = 1;
    }
    std::ranges::sort(places);
    Choices choices = choices_;
    Draft::add_choices(situation_, choices, from, open);
    const torch::NoGradGuard no_gradients;
    const EncodedChoices encoded =
        choices.size() == choices_.size() ? encoded_choices_ : network_->encode(encoded_, choices);
    std::vector<Draft> drafts = {Draft(situation_, choices, from, open)};
    const std::vector<double> temperatures = {1};
    decide(*network_, encoded_, encoded, places, drafts, temperatures, draw);
    std::vector<GroupDecision> decisions;
    for (const GroupId group : groups) decisions.push_back(drafts[0].decision(situation_.place_of[group]));
    return decisions;
  }

 private:
  const std::shared_ptr<PolicyNetwork> network_;
  const Situation situation_;
  const Choices choices_;
  Encoded encoded_;
  EncodedChoices encoded_choices_;
};

}  // namespace

Policy::Policy(std::uint64_t seed) : network_(fresh_network(seed)) {}
Policy::Policy(const std::filesystem::path& weights) : network_(fresh_network(0)) { load_weights(*network_, weights); }
Policy::~Policy() = default;

std::unique_ptr<Guide> Policy::guide(const Evaluator& evaluator) const {
  return std::make_unique<PolicyGuide>(network_, evaluator);
}

}  // namespace motley
