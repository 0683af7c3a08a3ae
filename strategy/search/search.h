#pragma once

// Chooses a strategy by search, with the simulator as judge.
//
// All baselines are judged, so the result is never worse than the best of them. Then come starts that are good for a
// reason (strategy/search/starts.h, strategy/pipelines.h) and rounds of balancing compute times. The rest of the budget
// is simulated annealing with large and small changes (strategy/search/moves.h): each round proposes kRound changes of
// the current strategy, judges them in parallel, and moves to the best of them when it is better, or by chance when it
// is a little worse (Metropolis et al. 1953), less and less as the budget is used up. After kPatience rounds without a
// new best it goes back to the best, or to the best with some trait (strategy/search/alternatives.h), which lies in
// another valley.
//
// A round's proposals depend on nothing but the seed and what was judged before, so the result depends on the number of
// evaluations and not on threads or time: with `evaluations` given and time to spare, the same seed gives the same
// strategy.

#include <cstdint>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "strategy/evaluate.h"
#include "strategy/pins.h"

namespace motley {

class Prior;  // strategy/search/prior.h

struct SearchProgress {
  const Evaluation& best;
  std::int64_t evaluations = 0;
  Seconds elapsed;
};

struct SearchOptions {
  Seconds time{10};  // after which no new round begins, nor one before it that would last longer
  // Judged first, whatever the time. Otherwise the pipelines are, in the order of their estimates, and the baselines
  // only while there is time: for a plan in milliseconds, which is then the first pipeline that turns out to fit.
  bool all_baselines = true;
  std::int64_t evaluations = std::numeric_limits<std::int64_t>::max();  // likewise
  // No strategy takes less: when the best is within 0.1 % of it, only the starts are judged, since they tell what each
  // decision is worth.
  Seconds bound;
  const Prior* prior = nullptr;  // proposes starts and changes; null: none
  std::uint64_t seed = 1;
  int threads = 0;             // 0: one per core
  const Pins* pins = nullptr;  // that every strategy obeys, fixed ones too; fixed ones that do not are left out
  std::stop_token stop;        // ends the search with the best so far
  std::function<void(const SearchProgress&)> progress;  // after each round, on the caller's thread
};

// The best of those strategies that share a trait, for comparison with the best of all.
struct Alternative {
  std::string trait;  // "without big/0", "all on one device", "all-reduce alone", ...
  Evaluation evaluation;
  bool known = false;  // whether any was judged
};

// The best after so many evaluations.
struct Improvement {
  std::int64_t evaluations = 0;
  Seconds iteration;
};

struct SearchResult {
  Evaluation best;                        // its strategy is named "search", though it may equal a baseline
  std::vector<Evaluation> baselines;      // in the order of strategy_names(); empty when there was no time for them
  std::vector<Alternative> alternatives;  // one per trait that any judged strategy had
  std::int64_t evaluations = 0;
  std::vector<Improvement> improvements;  // each faster than the one before; from the first that fits
  Seconds elapsed;                        // until the strategy was chosen
};

SearchResult search(const Evaluator& evaluator, const SearchOptions& options);

}  // namespace motley
