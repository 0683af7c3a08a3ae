#pragma once

// The sets of devices that a policy may place a group on, each with shares of the batch by the devices' speeds on the
// model: every device (of many alike, some), halves and quarters of those alike in a node, nodes, kinds, the fastest so
// many tokens, all but a node or a kind, all. A policy points at them by what it knows of their devices, so that any
// number will do. Sets that a strategy at hand uses join them with the shares that it has.

#include <vector>

#include "strategy/policy/situation.h"

namespace motley {

inline constexpr int kChoiceFeatures = 8;

struct Choice {
  std::vector<Share> shares;  // ascending devices, weights that sum to 1
  double narrowest = 1e18;    // bytes per second between any two of its tokens
  std::int32_t lead = 0;      // the token with the most of it
};

class Choices {
 public:
  explicit Choices(const Situation& situation);

  // The place of the choice with these devices and these shares (of any sum); it is added when there is none.
  std::int32_t add(const std::vector<Share>& shares);
  // The place of the choice that is most like these shares: first of those with the same devices, else of all; and how
  // much of the batch stays where it is.
  struct Nearest {
    std::int32_t choice = 0;
    double common = 0;
  };
  Nearest nearest(const std::vector<Share>& shares) const;

  std::size_t size() const { return all_.size(); }
  const Choice& operator[](std::size_t place) const { return all_[place]; }
  const std::vector<float>& tokens() const { return tokens_; }      // [choices, tokens]: share of the batch
  const std::vector<float>& features() const { return features_; }  // [choices, kChoiceFeatures]

 private:
  void add_set(std::vector<DeviceIndex> devices);
  std::int32_t append(std::vector<Share> shares);

  const Situation& situation_;
  std::vector<Choice> all_;
  std::vector<float> tokens_;
  std::vector<float> features_;
};

// The same shares with weights that sum to 1.
std::vector<Share> normalised(std::vector<Share> shares);

// How much of the batch stays where it is when one set follows on another, 0 to 1. Weights sum to 1.
double common_share(const std::vector<Share>& a, const std::vector<Share>& b);

}  // namespace motley
