#include "strategy/search/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/parallel.h"
#include "strategy/baselines.h"
#include "strategy/pipelines.h"
#include "strategy/search/alternatives.h"
#include "strategy/search/moves.h"
#include "strategy/search/prior.h"
#include "strategy/search/starts.h"

namespace motley {

namespace {

constexpr std::size_t kRound = 8;         // proposals at a time
constexpr int kPatience = 30;             // rounds without a new best
constexpr int kBalancingRounds = 5;       // of the best data-parallel starts
constexpr std::size_t kBalanced = 4;      // how many of them
constexpr double kWarmest = 0.01;         // of the best's time: what a worse proposal may cost at first
constexpr int kDraws = 64;                // for a proposal that was not judged before
constexpr std::size_t kProposed = 16;     // starts of a prior
constexpr std::size_t kGuided = 4;        // one change in so many is a prior's
constexpr std::size_t kMostGuided = 128;  // devices: a prior of more takes longer than what it saves
constexpr Seconds kInstruction{4e-6};     // to compile and simulate one, at most about
constexpr double kAtBound = 1.001;        // of the lower bound: no better strategy is worth the time

// Judges in parallel. What a stop leaves out is absent from the end.
std::vector<Evaluation> evaluate_all(const Evaluator& evaluator, const std::vector<Strategy>& strategies, int threads,
                                     const std::stop_token& stop) {
  std::vector<Evaluation> evaluations(strategies.size());
  std::vector<char> done(strategies.size(), 0);
  parallel_for(
      strategies.size(), threads,
      [&](std::size_t i) {
        evaluations[i] = evaluator.evaluate(strategies[i]);
        done[i] = 1;
      },
      stop);
  evaluations.resize(static_cast<std::size_t>(std::find(done.begin(), done.end(), 0) - done.begin()));
  return evaluations;
}

class Search {
 public:
  Search(const Evaluator& evaluator, const SearchOptions& options)
      : evaluator_(evaluator),
        options_(options),
        pins_(options.pins != nullptr ? *options.pins : Pins()),
        threads_(thread_count(options.threads)),
        work_(group_work(evaluator.graph(), evaluator.cluster(), evaluator.costs(), evaluator.batch())),
        moves_(evaluator, work_),
        random_(options.seed),
        alternatives_(evaluator) {}

  SearchResult run() {
    if (options_.all_baselines) judge_baselines();
    std::vector<Strategy> pipelines;
    if (!judged()) judge_first(pipelines = pipeline_starts(evaluator_));
    if (!judged() || (!options_.all_baselines && !over())) judge_baselines();
    std::vector<Evaluation> proposed;
    if (options_.prior != nullptr && evaluator_.cluster().devices.size() <= kMostGuided && !over()) {
      guide_ = options_.prior->guide(evaluator_);
      proposed = judge_new(guide_->propose(kProposed, options_.seed));
    }
    // Data parallelism before all pipelines: with many devices these take much longer to judge.
    std::vector<Evaluation> uniform = judge_new(data_parallel_starts(evaluator_, work_));
    for (const Evaluation& known : result_.baselines) {
      if (!known.strategy.name.starts_with("cp-")) continue;
      uniform.push_back(known);
      uniform.back().strategy = in_samples(known.strategy, evaluator_.batch());
    }
    std::ranges::move(judge_new(fitting_starts(uniform, evaluator_.batch())), std::back_inserter(uniform));
    if (!over()) judge_new(pipelines.empty() ? pipeline_starts(evaluator_) : pipelines);
    std::ranges::move(proposed, std::back_inserter(uniform));
    const std::vector<Evaluation> starts = balance(std::move(uniform));
    // Moving heavy parameters out of the way may make another set of devices the best.
    for (const Evaluation& start : starts) judge_new(parameter_heavy_starts(evaluator_, work_, start.strategy));
    judge_new(cut_starts(evaluator_, sides(starts)));
    anneal();
    result_.best.strategy.name = "search";
    result_.alternatives = alternatives_.take();
    result_.elapsed = chosen_unjudged_.value_or(elapsed());
    return std::move(result_);
  }

 private:
  Seconds elapsed() const {
    return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count());
  }
  bool over() const {
    return options_.stop.stop_requested() || elapsed() >= options_.time || result_.evaluations >= options_.evaluations;
  }
  bool at_bound() const {
    return result_.best.feasible() && result_.best.simulation.iteration <= options_.bound * kAtBound;
  }
  // How much of the budget is used up, 0 to 1. Of evaluations, if they are bounded, since time differs from run to run.
  double used() const {
    if (options_.evaluations == std::numeric_limits<std::int64_t>::max()) return elapsed() / options_.time;
    return static_cast<double>(result_.evaluations) / static_cast<double>(options_.evaluations);
  }

  void judge_baselines() {
    std::vector<Strategy> strategies;
    for (const std::string& name : strategy_names(evaluator_.cluster())) {
      Strategy one = baseline(name, evaluator_.graph(), evaluator_.cluster(), evaluator_.costs(), evaluator_.batch());
      if (!pins_.obeyed_by(one)) continue;
      strategies.push_back(std::move(one));
      seen_.insert(fingerprint(in_samples(strategies.back(), evaluator_.batch())));
    }
    result_.baselines = evaluate_all(evaluator_, strategies, threads_, {});
    count(result_.baselines);
    if (judged()) return;
    // What the pins leave of even data parallelism.
    count({evaluator_.evaluate(
        obeying(baseline("ev-ar", evaluator_.graph(), evaluator_.cluster(), evaluator_.costs(), evaluator_.batch())))});
  }

  Strategy obeying(const Strategy& strategy) const {
    if (pins_.obeyed_by(strategy)) return strategy;
    return in_samples(pins_.obeying(strategy, evaluator_.batch()), evaluator_.batch());
  }

  bool judged() const { return result_.evaluations > 0; }

  // In the order of their estimates, until one is feasible. Where the time is too short for a simulation, that is the
  // choice, and the simulation only tells what it will take.
  void judge_first(const std::vector<Strategy>& pipelines) {
    for (const Strategy& start : pipelines) {
      const Strategy pipeline = obeying(start);
      if (judged() && result_.best.feasible()) break;
      if (elapsed() + simulation_time(pipeline) >= options_.time) chosen_unjudged_ = elapsed();
      seen_.insert(fingerprint(pipeline));
      count({evaluator_.evaluate(pipeline)});
    }
    if (!over()) chosen_unjudged_.reset();
  }

  // Whether the last of them is simulated before the time is over.
  bool in_time(const std::vector<Strategy>& strategies) const {
    Seconds sum, longest;
    for (const Strategy& strategy : strategies) {
      const Seconds one = simulation_time(strategy);
      sum += one;
      longest = std::max(longest, one);
    }
    return elapsed() + std::max(longest, sum / static_cast<double>(threads_)) < options_.time;
  }

  Seconds simulation_time(const Strategy& strategy) const {
    constexpr std::size_t kUnlike = 8;  // devices of one stage: equal ones are simulated as one (Folding)
    const bool staged = has_stages(strategy);
    std::size_t instructions = 0;
    for (const Op& op : evaluator_.graph().ops) {
      if (op.group == kNone) continue;
      const std::size_t devices = strategy.groups[op.group].shares.size();
      instructions += staged ? devices : std::min(devices, kUnlike);
    }
    return static_cast<double>(instructions) * static_cast<double>(strategy.micro_batches) * kInstruction;
  }

  // Judges those that are new and that the budget still allows, in rounds.
  std::vector<Evaluation> judge_new(const std::vector<Strategy>& strategies) {
    std::vector<Strategy> round;
    std::vector<Evaluation> all;
    const auto judge_round = [&] {
      const std::vector<Strategy> next = std::exchange(round, {});
      if (over() || !in_time(next)) return;
      const auto left = static_cast<std::size_t>(
          std::min<std::int64_t>(options_.evaluations - result_.evaluations, static_cast<std::int64_t>(kRound)));
      std::vector<Evaluation> evaluations = evaluate_all(
          evaluator_, {next.begin(), next.begin() + static_cast<std::ptrdiff_t>(std::min(left, next.size()))}, threads_,
          options_.stop);
      count(evaluations);
      std::move(evaluations.begin(), evaluations.end(), std::back_inserter(all));
    };
    for (const Strategy& start : strategies) {
      if (over()) break;
      const Strategy strategy = obeying(start);
      if (!quick(strategy) || !seen_.insert(fingerprint(strategy)).second) continue;
      round.push_back(strategy);
      round.back().name = "search";
      if (round.size() == kRound) judge_round();
    }
    if (!round.empty()) judge_round();
    return all;
  }

  // Whether judging takes no longer than a search can wait: on many devices, if most of them are twins of a few
  // (Folding::kTwins).
  bool quick(const Strategy& strategy) const {
    if (evaluator_.cluster().devices.size() <= kManyDevices) return true;
    std::vector<char> used(evaluator_.cluster().devices.size(), 0);
    bool folds = strategy.micro_batches == 1;
    for (std::size_t g = 0; g < strategy.groups.size(); ++g) {
      const GroupDecision& decision = strategy.groups[g];
      folds &= decision.gradient == GradientMethod::kAllReduce && decision.shares == strategy.groups[0].shares;
      for (const Share& share : decision.shares) used[static_cast<std::size_t>(share.device)] = 1;
    }
    return folds || std::ranges::count(used, 1) <= static_cast<std::ptrdiff_t>(kManyDevices);
  }

  void count(const std::vector<Evaluation>& evaluations) {
    for (const Evaluation& evaluation : evaluations) {
      alternatives_.add(evaluation);
      if (++result_.evaluations == 1 || better(evaluation, result_.best)) {
        result_.best = evaluation;
        if (evaluation.feasible()) {
          result_.improvements.push_back({result_.evaluations, evaluation.simulation.iteration});
        }
        rounds_since_best_ = 0;
      }
    }
    if (options_.progress) options_.progress({result_.best, result_.evaluations, elapsed()});
  }

  // The best starts, their shares moved towards equal compute time: what proportional shares miss when a device's time
  // is not proportional to its samples.
  std::vector<Evaluation> balance(std::vector<Evaluation> starts) {
    std::stable_sort(starts.begin(), starts.end(), better);
    std::erase_if(starts, [](const Evaluation& e) { return e.not_compilable || e.simulation.busy.size() < 2; });
    if (starts.size() > kBalanced) starts.resize(kBalanced);
    std::vector<Evaluation> last = starts;
    for (int i = 0; i < kBalancingRounds && !last.empty() && !over(); ++i) {
      std::vector<Strategy> next;
      next.reserve(last.size());
      for (const Evaluation& evaluation : last) next.push_back(rebalanced(evaluation, evaluator_.batch()));
      last = judge_new(next);
    }
    return starts;
  }

  // The best starts' decisions, one per set of devices; and the fastest device alone.
  std::vector<GroupDecision> sides(const std::vector<Evaluation>& starts) const {
    std::vector<GroupDecision> sides;
    const std::vector<double> seconds = iteration_seconds(work_, evaluator_.cluster());
    const auto fastest = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    sides.push_back({{{static_cast<DeviceIndex>(fastest), static_cast<double>(evaluator_.batch())}}});
    for (const Evaluation& start : starts) {
      const GroupDecision& decision = start.strategy.groups.front();
      const auto same_shares = [&](const GroupDecision& side) { return side.shares == decision.shares; };
      if (std::none_of(sides.begin(), sides.end(), same_shares)) sides.push_back(decision);
    }
    return sides;
  }

  std::vector<Strategy> proposals(const Evaluation& from) {
    std::vector<Strategy> round;
    std::unordered_set<std::uint64_t> drawn;
    for (int draw = 0; draw < kDraws && round.size() < kRound; ++draw) {
      Strategy strategy = obeying(guide_ && random_() % kGuided == 0 ? guided(from) : moves_.propose(from, random_));
      const std::uint64_t print = fingerprint(strategy);
      if (!quick(strategy)) continue;
      if (!seen_.contains(print) && drawn.insert(print).second) round.push_back(std::move(strategy));
    }
    return round;
  }

  // A neighbourhood of `from`, decided anew by the prior.
  Strategy guided(const Evaluation& from) {
    Strategy strategy = from.strategy;
    const std::vector<GroupId> groups = moves_.neighbourhood(from, random_);
    const std::vector<GroupDecision> decisions = guide_->resample(strategy, groups, random_());
    for (std::size_t i = 0; i < groups.size(); ++i) strategy.groups[groups[i]] = decisions[i];
    return has_gap(strategy) ? from.strategy : strategy;
  }

  void anneal() {
    Evaluation current = result_.best;
    current.strategy = in_samples(current.strategy, evaluator_.batch());
    rounds_since_best_ = 0;
    int known_rounds = 0;
    while (!over() && !at_bound()) {
      if (++rounds_since_best_ > kPatience) {
        current = restart();
        rounds_since_best_ = 1;
      }
      std::vector<Strategy> round = proposals(current);
      if (round.empty()) {  // the neighbourhood is known: walk on over known ground, or end when there is no other
        if (++known_rounds > kPatience) return;
        current = evaluator_.evaluate(obeying(moves_.propose(current, random_)));
        ++result_.evaluations;
        continue;
      }
      known_rounds = 0;
      const std::vector<Evaluation> evaluations = judge_new(round);
      if (evaluations.empty() && !in_time(round)) return;
      if (evaluations.empty()) continue;
      const Evaluation& next = *std::min_element(evaluations.begin(), evaluations.end(), better);
      if (better(next, current) || accepts(current, next)) current = next;
    }
  }

  // The best, or the best of those with some trait: they lie in different valleys.
  Evaluation restart() {
    Evaluation from = result_.best;
    if (random_() % 2 == 0) {
      const std::vector<Alternative>& known = alternatives_.best();
      const Alternative& one = known[random_() % known.size()];
      if (one.known) from = one.evaluation;
    }
    from.strategy = in_samples(from.strategy, evaluator_.batch());
    return from;
  }

  bool accepts(const Evaluation& current, const Evaluation& next) {
    if (next.not_compilable || next.overflow() > current.overflow()) return false;
    const double warmth = kWarmest * (1 - used()) * result_.best.simulation.iteration.value;
    if (warmth <= 0) return false;
    const double loss = (next.simulation.iteration - current.simulation.iteration).value;
    const double chance = static_cast<double>(random_() >> 11) * 0x1p-53;
    return chance < std::exp(-loss / warmth);
  }

  const Evaluator& evaluator_;
  const SearchOptions& options_;
  const Pins pins_;
  const int threads_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const std::vector<GroupWork> work_;
  const Moves moves_;
  std::unique_ptr<Guide> guide_;  // none before there is time for one
  std::mt19937_64 random_;
  std::unordered_set<std::uint64_t> seen_;  // fingerprints of what was judged
  Alternatives alternatives_;
  SearchResult result_;
  std::optional<Seconds> chosen_unjudged_;  // when
  int rounds_since_best_ = 0;
};

}  // namespace

SearchResult search(const Evaluator& evaluator, const SearchOptions& options) {
  return Search(evaluator, options).run();
}

}  // namespace motley
