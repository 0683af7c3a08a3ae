#include "strategy/search/alternatives.h"

#include <algorithm>

#include "strategy/alike.h"
#include "strategy/baselines.h"

namespace motley {

Alternatives::Alternatives(const Evaluator& evaluator) : best_(kFixed), devices_(evaluator.cluster().devices.size()) {
  best_[kOneDevice].trait = "all on one device";
  best_[kUniform].trait = "the same shares for every group";
  best_[kModelParallel].trait = "every group on one device";
  best_[kAllReduceOnly].trait = "all-reduce alone";
  best_[kServerOnly].trait = "parameter servers alone";
  const std::vector<Device>& devices = evaluator.cluster().devices;
  if (devices.size() > kManyDevices) {
    without_ = alike_devices(evaluator.cluster(), evaluator.costs());
  } else {
    for (std::size_t d = 0; d < devices.size(); ++d) without_.push_back({static_cast<DeviceIndex>(d)});
  }
  for (const std::vector<DeviceIndex>& set : without_) {
    std::string name = devices[set[0]].name;
    if (set.size() > 1) name += " and " + std::to_string(set.size() - 1) + " like it";
    best_.push_back({"without " + name, {}, false});
  }
}

void Alternatives::add(std::size_t trait, const Evaluation& evaluation) {
  if (best_[trait].known && !better(evaluation, best_[trait].evaluation)) return;
  best_[trait].known = true;
  best_[trait].evaluation = evaluation;
}

void Alternatives::add(const Evaluation& evaluation) {
  if (evaluation.not_compilable) return;
  std::vector<char> used(devices_, 0);
  bool uniform = true, model_parallel = true, reduces = false, serves = false;
  const std::vector<GroupDecision>& groups = evaluation.strategy.groups;
  for (const GroupDecision& decision : groups) {
    uniform = uniform && decision.shares == groups[0].shares;
    for (const Share& share : decision.shares) used[share.device] = 1;
    if (decision.shares.size() == 1) continue;
    model_parallel = false;
    (decision.gradient == GradientMethod::kAllReduce ? reduces : serves) = true;
  }
  const auto devices = std::count(used.begin(), used.end(), 1);
  if (devices == 1) {
    add(kOneDevice, evaluation);
  } else {
    if (uniform) add(kUniform, evaluation);
    if (model_parallel) add(kModelParallel, evaluation);
    if (reduces && !serves) add(kAllReduceOnly, evaluation);
    if (serves && !reduces) add(kServerOnly, evaluation);
  }
  for (std::size_t set = 0; set < without_.size(); ++set) {
    const auto unused = [&](DeviceIndex device) { return used[device] == 0; };
    if (std::ranges::all_of(without_[set], unused)) add(kFixed + set, evaluation);
  }
}

std::vector<Alternative> Alternatives::take() {
  std::vector<Alternative> taken;
  for (Alternative& alternative : best_) {
    if (alternative.known) taken.push_back(std::move(alternative));
  }
  return taken;
}

}  // namespace motley
