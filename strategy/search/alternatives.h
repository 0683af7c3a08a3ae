#pragma once

// Remembers the best strategy of every kind that a search came across: the runners-up that explain a plan.

#include <vector>

#include "strategy/search/search.h"

namespace motley {

class Alternatives {
 public:
  explicit Alternatives(const Evaluator& evaluator);
  void add(const Evaluation& evaluation);
  const std::vector<Alternative>& best() const { return best_; }  // by trait; some may not be known
  std::vector<Alternative> take();  // in a fixed order of traits; those that nothing had are left out

 private:
  enum Fixed : std::size_t { kOneDevice, kUniform, kModelParallel, kAllReduceOnly, kServerOnly, kFixed };
  void add(std::size_t trait, const Evaluation& evaluation);

  std::vector<Alternative> best_;  // the fixed traits, then one "without" per set
  std::size_t devices_;
  std::vector<std::vector<DeviceIndex>> without_;  // each device; where there are many, those that are alike
};

}  // namespace motley
