#pragma once

// Small and large changes of a strategy: the neighbourhood that a search walks in.

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "strategy/evaluate.h"
#include "strategy/work.h"

namespace motley {

// The same strategy with samples as weights: what two strategies that divide the batch alike have in common. A group
// that cannot be divided (more shares than samples) is left as it is.
Strategy in_samples(const Strategy& strategy, std::int64_t batch);
GroupDecision in_samples(GroupDecision decision, std::int64_t batch);

// Equal for strategies that compile to the same deployment.
std::uint64_t fingerprint(const Strategy& in_samples);

// All groups' shares scaled towards equal compute time on all devices, by the busy times of `evaluation`: a device that
// was busy for twice the mean gets half.
Strategy rebalanced(const Evaluation& evaluation, std::int64_t batch);

// Whether no group is in some stage before the last: stages must be numbered without gaps.
bool has_gap(const Strategy& strategy);

// Not thread-safe when it draws from one generator; the object itself is const.
class Moves {
 public:
  Moves(const Evaluator& evaluator, const std::vector<GroupWork>& work);

  // A random change of `from`, whose weights are samples; its weights are samples too.
  Strategy propose(const Evaluation& from, std::mt19937_64& random) const;
  // Groups to decide anew together: neighbours, or those on a device that lacks memory or has much to do.
  std::vector<GroupId> neighbourhood(const Evaluation& from, std::mt19937_64& random) const;

 private:
  using Random = std::mt19937_64;
  using Decisions = std::vector<GroupDecision>;
  std::vector<GroupId> scope(const Decisions& groups, Random& random) const;
  DeviceIndex pressed_device(const Evaluation& from, const GroupDecision& decision, Random& random) const;
  GroupDecision others_alike(const GroupDecision& old, Random& random) const;
  GroupDecision changed(const Evaluation& from, const GroupDecision& old, Random& random) const;
  GroupDecision shift_samples(const Evaluation& from, GroupDecision decision, Random& random) const;
  GroupDecision proportional(std::vector<DeviceIndex> devices, GradientMethod method) const;
  void move_boundary(Decisions& groups, Random& random) const;
  void copy_neighbour(Decisions& groups, Random& random) const;
  Strategy propose_pipeline(Strategy strategy, Random& random) const;
  std::int64_t possible(const Strategy& strategy, std::int64_t micro_batches) const;
  std::int64_t doubled_or_halved_micro_batches(const Strategy& strategy, Random& random) const;

  const Evaluator& evaluator_;
  std::vector<std::vector<DeviceIndex>> alike_;
  std::vector<double> speed_;   // per device: iterations per second of the whole model
  std::vector<GroupId> order_;  // model_order()
  std::vector<std::pair<GroupId, GroupId>> edges_;
};

}  // namespace motley
