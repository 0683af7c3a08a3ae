#include "strategy/policy/training_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "strategy/policy/draw.h"
#include "strategy/policy/random_cluster.h"
#include "strategy/policy/random_model.h"

namespace motley {

namespace {

// Draws one of those given, or nothing for a generated one.
template <class Thing>
const Thing* given(const std::vector<Thing>& things, bool generated, Draw& draw) {
  if (things.empty() || (generated && draw.chance(0.5))) return nullptr;
  return &things[static_cast<std::size_t>(draw.between(0, static_cast<std::int64_t>(things.size()) - 1))];
}

std::int64_t draw_batch(const Graph& graph, const Cluster& cluster, const CostModel& costs, Draw& draw) {
  const std::int64_t probe = std::max<std::int64_t>(graph.min_batch, 8);
  double state = 0, active = 0, memory = 0;
  for (const GroupWork& one : group_work(graph, cluster, costs, probe)) {
    state += static_cast<double>(one.state_bytes);
    active += static_cast<double>(one.activation_bytes) / static_cast<double>(probe);
  }
  for (const Device& device : cluster.devices) memory += static_cast<double>(device.memory.value);
  const auto devices = static_cast<double>(cluster.devices.size());
  const double fitting = (memory * draw.log_between(0.05, 1.2) - state) / std::max(active, 1.0);
  const double usual = devices * draw.log_between(2, 256);
  const std::int64_t most = graph.max_batch > 0 ? graph.max_batch : std::int64_t{1} << 14;
  const std::int64_t least = std::min(most, std::max<std::int64_t>(graph.min_batch, draw.between(2, 32)));
  return std::clamp<std::int64_t>(std::llround(std::min(fitting, usual)), least, most);
}

}  // namespace

TrainingCase::TrainingCase(const CaseSource& source, std::uint64_t number)
    : seconds_(std::numeric_limits<double>::infinity()) {
  Draw draw(number);
  const Graph* const model = given(source.models, source.generated_models, draw);
  const Cluster* const cluster = given(source.clusters, source.generated_clusters, draw);
  graph_ = model != nullptr ? *model : random_model(draw.word());
  cluster_ = cluster != nullptr ? *cluster : random_cluster(draw.word());
  std::optional<ProfileStore> profiles;
  if (!source.profiles.empty()) profiles.emplace(source.profiles);
  costs_ = std::make_unique<CostTable>(graph_, cluster_, profiles ? &*profiles : nullptr);
  evaluator_ = std::make_unique<Evaluator>(graph_, cluster_, *costs_, draw_batch(graph_, cluster_, *costs_, draw));
  situation_ = std::make_unique<Situation>(*evaluator_);
  choices_ = std::make_unique<Choices>(*situation_);
}

bool TrainingCase::offer(const Evaluation& evaluation) {
  if (!evaluation.feasible() || evaluation.simulation.iteration.value >= seconds_) return false;
  best_ = evaluation.strategy;
  seconds_ = evaluation.simulation.iteration.value;
  return true;
}

}  // namespace motley
