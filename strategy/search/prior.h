#pragma once

// What a learned policy tells the search: where to begin, and how to change a strategy. The search knows nothing else
// of it.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "strategy/evaluate.h"

namespace motley {

// For one model on one cluster at one batch size. Const functions are thread-safe; the same seed gives the same answer.
class Guide {
 public:
  virtual ~Guide() = default;

  // At most `count` complete strategies, the most promising first. Weights are samples. Some may not be feasible.
  virtual std::vector<Strategy> propose(std::size_t count, std::uint64_t seed) const = 0;

  // New decisions for `groups`, at least one, in their order, given those of all others in `from`. Weights are samples.
  // What stages they are in fits their neighbours, but one that all its groups leave is missing then.
  virtual std::vector<GroupDecision> resample(const Strategy& from, std::span<const GroupId> groups,
                                              std::uint64_t seed) const = 0;
};

// Thread-safe when const.
class Prior {
 public:
  virtual ~Prior() = default;

  // The evaluator must outlive the guide.
  virtual std::unique_ptr<Guide> guide(const Evaluator& evaluator) const = 0;
};

}  // namespace motley
