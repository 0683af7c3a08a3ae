#pragma once

// One lesson of a policy: a model on a cluster at a batch size, and the best strategy that is known for it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/cost_table.h"
#include "strategy/policy/choices.h"

namespace motley {

// Where cases come from. Models and clusters that are given take turns with generated ones, of which every number is
// another (strategy/policy/random_model.h, strategy/policy/random_cluster.h). Immutable, thread-safe.
struct CaseSource {
  std::vector<Graph> models;
  std::vector<Cluster> clusters;
  bool generated_models = true;  // beside those given
  bool generated_clusters = true;
  std::string profiles;  // a profile store with what was measured, or empty
};

class TrainingCase {
 public:
  // The batch is 2 to 256 samples per device, less where the model would take more than a share of the devices' memory
  // together that is drawn from 5 % to 120 %. Costs are the catalogue's
  // estimates, or what the store has. The same number gives the same case.
  TrainingCase(const CaseSource& source, std::uint64_t number);
  TrainingCase(const TrainingCase&) = delete;
  TrainingCase& operator=(const TrainingCase&) = delete;

  const Evaluator& evaluator() const { return *evaluator_; }
  const Situation& situation() const { return *situation_; }
  const Choices& choices() const { return *choices_; }

  const Strategy& best() const { return best_; }
  // Of one iteration with the best strategy; infinite as long as none is feasible.
  double seconds() const { return seconds_; }
  // Takes the strategy if it is better. Returns whether it was.
  bool offer(const Evaluation& evaluation);

 private:
  Graph graph_;
  Cluster cluster_;
  std::unique_ptr<CostTable> costs_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Situation> situation_;
  std::unique_ptr<Choices> choices_;
  Strategy best_;
  double seconds_;
};

}  // namespace motley
