#pragma once

// What a learned policy tells the search: where to begin, and how to change a strategy. The search knows nothing else
// of it.

#include <cstdint>
#include <span>
#include <vector>

#include "strategy/evaluate.h"

namespace motley {

// Const functions are thread-safe; the same seed gives the same answer.
class Prior {
 public:
  virtual ~Prior() = default;

  // At most `count` complete strategies, the most promising first.
  virtual std::vector<Strategy> propose(const Evaluator& evaluator, std::size_t count, std::uint64_t seed) const = 0;

  // New decisions for `groups`, one each in their order, given those of all others in `from`.
  virtual std::vector<GroupDecision> resample(const Evaluator& evaluator, const Strategy& from,
                                              std::span<const GroupId> groups, std::uint64_t seed) const = 0;
};

}  // namespace motley
