#include "strategy/policy/draft.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "strategy/search/moves.h"

namespace motley {

int Passage::number() const {
  if (micro_batches <= 1) return 0;
  const int doubled =
      static_cast<int>(std::lround(std::log2(static_cast<double>(std::min(micro_batches, kMostMicroBatches)))));
  return staged ? kPassages / 2 + doubled : doubled;
}

Passage Passage::numbered(int number) {
  if (number <= kPassages / 2) return {std::int64_t{1} << number, false};
  return {std::int64_t{1} << (number - kPassages / 2), true};
}

Draft::Draft(const Situation& situation, const Choices& choices, Passage passage)
    : situation_(situation),
      choices_(choices),
      passage_(passage),
      picks_(situation.places()),
      shares_(situation.places()),
      load_(situation.speed.size(), 0),
      state_(situation.speed.size(), 0),
      active_(situation.speed.size(), 0),
      uses_(choices.size(), 0) {}

Draft::Draft(const Situation& situation, const Choices& choices, const Strategy& strategy,
             const std::vector<char>& open)
    : Draft(situation, choices, Passage{strategy.micro_batches, has_stages(strategy)}) {
  for (std::size_t place = 0; place < situation.places(); ++place) {
    const GroupDecision& decision = strategy.groups[situation.order[place]];
    stages_.push_back(decision.stage);
    if (open[place] != 0) continue;
    const std::int32_t choice = choices.nearest(decision.shares).choice;
    decide(static_cast<std::int32_t>(place), {choice, ShareMode::kChoice, decision.gradient, decision.recompute});
  }
  keeps_stages_ = passage_.staged;
}

void Draft::add_choices(const Situation& situation, Choices& choices, const Strategy& strategy,
                        const std::vector<char>& open) {
  const std::vector<Share>* last = nullptr;
  for (std::size_t place = 0; place < situation.places(); ++place) {
    const std::vector<Share>& shares = strategy.groups[situation.order[place]].shares;
    if (open[place] != 0 || (last != nullptr && *last == shares)) continue;  // most neighbours decide alike
    choices.add(shares);
    last = &shares;
  }
}

Draft::Nearest Draft::nearest(std::int32_t place, const GroupDecision& decision) const {
  const Choices::Nearest found = choices_.nearest(decision.shares);
  Nearest best{{found.choice, ShareMode::kChoice, decision.gradient, decision.recompute}, found.common};
  if (found.common > 1 - 1e-9) return best;
  const std::vector<Share> wanted = normalised(decision.shares);
  for (const ShareMode mode : {ShareMode::kEven, ShareMode::kOwn}) {
    Pick pick = best.pick;
    pick.mode = mode;
    const double common = common_share(shares_of(place, pick), wanted);
    if (common > best.common + 1e-9) best = {pick, common};
  }
  return best;
}

std::int32_t Draft::next_decided(std::int32_t place) const {
  for (++place; place < static_cast<std::int32_t>(picks_.size()); ++place) {
    if (decided(place)) return place;
  }
  return -1;
}

const Choice* Draft::neighbour(std::int32_t place) const {
  if (place < 0 || place >= static_cast<std::int32_t>(picks_.size()) || !decided(place)) return nullptr;
  return &choices_[picks_[place].choice];
}

std::vector<Share> Draft::shares_of(std::int32_t place, const Pick& pick) const {
  std::vector<Share> shares = choices_[pick.choice].shares;
  if (pick.mode == ShareMode::kChoice || shares.size() == 1) return shares;
  for (Share& share : shares) {
    const double seconds = situation_.work[place].seconds[share.device];
    share.weight = pick.mode == ShareMode::kEven ? 1 : 1 / std::max(seconds, 1e-12);
  }
  return normalised(std::move(shares));
}

void Draft::decide(std::int32_t place, const Pick& pick) {
  if (keeps_stages_) {
    const bool joins_before = place > 0 && decided(place - 1) && picks_[place - 1].choice == pick.choice;
    if (const std::int32_t next = next_decided(place); joins_before) {
      stages_[place] = stages_[place - 1];
    } else if (next >= 0) {
      stages_[place] = stages_[next];
    }
  }
  picks_[place] = pick;
  shares_[place] = shares_of(place, pick);
  const GroupWork& work = situation_.work[place];
  for (const Share& share : shares_[place]) {
    const double fixed = situation_.fixed[place];
    load_[share.device] += work.seconds[share.device] * (fixed + (1 - fixed) * share.weight);
    state_[share.device] += static_cast<double>(work.state_bytes);
    active_[share.device] += static_cast<double>(work.activation_bytes) * share.weight;
  }
  ++uses_[pick.choice];
  ++count_;
  decided_ += *std::ranges::min_element(work.seconds) / *std::ranges::min_element(situation_.iteration);
}

double Draft::seconds_to(const Choice& from, const Choice& to, double bytes) const {
  const double moved = bytes * (1 - common_share(from.shares, to.shares));
  if (moved < 1) return 0;
  const std::size_t tokens = situation_.tokens.size();
  const double rate = from.lead == to.lead ? std::min(from.narrowest, to.narrowest)
                                           : situation_.rate[static_cast<std::size_t>(from.lead) * tokens + to.lead];
  // Between two devices of one token neither has a narrowest link of its own.
  const double within = situation_.rate[static_cast<std::size_t>(from.lead) * tokens + from.lead];
  return moved / std::min(rate, from.lead == to.lead ? within : rate);
}

void Draft::look(std::int32_t place, std::vector<float>& features, std::vector<char>& allowed) const {
  const GroupWork& work = situation_.work[place];
  const double fixed = situation_.fixed[place], ideal = situation_.ideal;
  const auto places = static_cast<double>(situation_.places()), devices = static_cast<double>(load_.size());
  const double part = *std::ranges::min_element(work.seconds) / *std::ranges::min_element(situation_.iteration);
  const double mine = ideal * std::max(part, 1e-3 / places);
  const double progress = std::max(decided_ + part, 1e-3);
  const Choice* const before = neighbour(place - 1);
  const Choice* const behind = neighbour(place + 1);
  double busiest = 0;
  for (const double seconds : load_) busiest = std::max(busiest, seconds);
  const float done = static_cast<float>(count_ / places);
  const float micro = static_cast<float>(std::log2(static_cast<double>(passage_.micro_batches)) / 4);
  std::vector<char> divides(choices_.size()), fits(choices_.size());
  bool any = false;
  features.reserve(features.size() + choices_.size() * kStepFeatures);
  for (std::size_t c = 0; c < choices_.size(); ++c) {
    const Choice& choice = choices_[c];
    double slowest = 0, after = 0, fullest = 0, states = 0, unused = 0, lag = 0;
    for (const Share& share : choice.shares) {
      const DeviceIndex d = share.device;
      const double seconds = work.seconds[d] * (fixed + (1 - fixed) * share.weight);
      const double room = std::max(situation_.room[d], 1.0);
      slowest = std::max(slowest, seconds);
      after = std::max(after, load_[d] + seconds);
      lag += share.weight * load_[d];
      const double state = state_[d] + static_cast<double>(work.state_bytes);
      const double active = active_[d] + static_cast<double>(work.activation_bytes) * share.weight;
      fullest = std::max(fullest, (state + active) / room);
      states = std::max(states, state / room);
      if (load_[d] <= 0) unused += share.weight;
    }
    double incoming = 0, outgoing = 0;
    for (const std::int32_t e : situation_.edges_of[place]) {
      const Situation::Edge& edge = situation_.edges[e];
      const bool in = edge.to == place;
      const std::int32_t other = in ? edge.from : edge.to;
      if (!decided(other)) continue;
      const Choice& there = choices_[picks_[other].choice];
      (in ? incoming : outgoing) += in ? seconds_to(there, choice, edge.bytes) : seconds_to(choice, there, edge.bytes);
    }
    const auto n = static_cast<double>(choice.shares.size());
    const double meeting = n > 1 ? 2 * (n - 1) / n * static_cast<double>(work.parameter_bytes) / choice.narrowest : 0;
    features.insert(features.end(),
                    {log_ratio(slowest / mine),
                     before != nullptr ? static_cast<float>(common_share(before->shares, choice.shares)) : 0.5F,
                     before == &choice ? 1.0F : 0.0F,
                     before != nullptr ? 1.0F : 0.0F,
                     behind != nullptr ? static_cast<float>(common_share(choice.shares, behind->shares)) : 0.5F,
                     behind == &choice ? 1.0F : 0.0F,
                     behind != nullptr ? 1.0F : 0.0F,
                     log_ratio(incoming / ideal * places),
                     log_ratio(outgoing / ideal * places),
                     log_ratio(incoming / mine),
                     log_ratio(meeting / ideal * places),
                     log_ratio(meeting / mine),
                     log_ratio(after / ideal),
                     log_ratio(after / ideal / progress),
                     log_ratio(after / std::max(busiest, 1e-3 * ideal)),
                     log_ratio(lag / ideal / progress),
                     static_cast<float>(std::min(fullest, 2.0)),
                     fullest > 1 ? 1.0F : 0.0F,
                     static_cast<float>(std::min(states, 2.0)),
                     static_cast<float>(n / devices),
                     static_cast<float>(unused),
                     static_cast<float>(uses_[c]) / static_cast<float>(std::max(count_, 1)),
                     uses_[c] > 0 ? 1.0F : 0.0F,
                     done,
                     micro,
                     passage_.staged ? 1.0F : 0.0F});
    divides[c] = n * static_cast<double>(passage_.micro_batches) <= static_cast<double>(situation_.evaluator.batch());
    fits[c] = states <= 1;
    any = any || (divides[c] && fits[c]);
  }
  const Choice* const ahead = neighbour(next_decided(place));
  if (keeps_stages_ && (before != nullptr || ahead != nullptr)) {
    for (std::size_t c = 0; c < choices_.size(); ++c) {
      allowed.push_back(&choices_[c] == before || &choices_[c] == ahead ? 1 : 0);
    }
    return;
  }
  for (std::size_t c = 0; c < choices_.size(); ++c)
    allowed.push_back(divides[c] != 0 && (fits[c] != 0 || !any) ? 1 : 0);
}

GroupDecision Draft::decision(std::int32_t place) const {
  GroupDecision decision{shares_[place], picks_[place].gradient};
  decision.recompute = picks_[place].recompute;
  if (keeps_stages_) decision.stage = stages_[place];
  return in_samples(decision, situation_.evaluator.batch());
}

Strategy Draft::strategy() const {
  Strategy strategy;
  strategy.name = "policy";
  strategy.groups.resize(situation_.places());
  strategy.micro_batches = passage_.micro_batches;
  std::int32_t stage = 0;
  for (std::int32_t place = 0; place < static_cast<std::int32_t>(picks_.size()); ++place) {
    if (passage_.staged && place > 0 && picks_[place].choice != picks_[place - 1].choice) ++stage;
    GroupDecision& decision = strategy.groups[situation_.order[place]];
    decision = this->decision(place);
    decision.stage = stage;
  }
  // Of groups that are not convex a stage may need what a later one makes: then there are none.
  const bool backwards =
      std::ranges::any_of(situation_.edges, [](const Situation::Edge& edge) { return edge.from > edge.to; });
  if (backwards) {
    for (GroupDecision& decision : strategy.groups) decision.stage = 0;
  }
  return strategy;
}

}  // namespace motley
