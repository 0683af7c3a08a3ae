#pragma once

// Lets a network decide: it scores what a draft shows of a place, one choice is drawn, the next place sees it.

#include <span>
#include <vector>

#include "strategy/policy/draw.h"
#include "strategy/policy/network.h"

namespace motley {

// What was decided and what was known then, so that the network can be asked again how likely it was.
struct Record {
  std::vector<std::int32_t> places;
  std::vector<std::int32_t> drafts;  // of which each is
  std::vector<float> features;       // [decisions, choices, kStepFeatures]
  std::vector<char> allowed;         // [decisions, choices]
  std::vector<Pick> picks;
  std::vector<char> divides;  // there are several shares, so that they and the gradients' method mean something
  std::vector<char> counts;   // the choice is a lesson

  // That `draft`, of this number, decides so; what it shows of the place is added apart.
  void add(const Draft& draft, std::int32_t number, std::int32_t place, const Pick& pick, bool counts_as_lesson);
};

// Logarithms of the probabilities of the passages [kPassages]; of those with more micro-batches than samples, -1e9.
// Differentiable.
torch::Tensor passage_logs(const Encoded& encoded, const Situation& situation);
Passage draw_passage(const Encoded& encoded, const Situation& situation, double temperature, Draw& draw);

// Draws with probabilities that are sharpened by 1 / temperature; 0: the likeliest. A score of -infinity is never drawn
// unless all are.
std::size_t drawn(std::span<const float> scores, double temperature, Draw& draw);

// Decides `places`, in their order, of each draft. All drafts are of one situation and the same choices.
// `temperatures`: of each draft. Adds to `record` when that is not null.
void decide(PolicyNetwork& network, const Encoded& encoded, const EncodedChoices& choices,
            std::span<const std::int32_t> places, std::vector<Draft>& drafts, std::span<const double> temperatures,
            Draw& draw, Record* record = nullptr);

struct Likelihood {
  torch::Tensor choice;   // [decisions]: log of the probability of each choice that was made; 0 where it does not count
  torch::Tensor rest;     // ... of the rest of the decision
  torch::Tensor entropy;  // of each choice
  torch::Tensor likeliest;  // [decisions]: 1 where the likeliest choice was made
};
// Differentiable.
Likelihood likelihood(PolicyNetwork& network, const Encoded& encoded, const EncodedChoices& choices,
                      const Record& record);

}  // namespace motley
