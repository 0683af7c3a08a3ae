#include "strategy/policy/decide.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace motley {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Twice the micro-batches take twice as long to simulate: a network that knows nothing yet takes e^1.5 times fewer.
constexpr float kDoubling = 1.5F;

// Where in rest()'s scores each decision begins.
constexpr std::int64_t kGradientAt = kShareModes, kRecomputeAt = kShareModes + kGradientMethods,
                       kRest = kShareModes + kGradientMethods + kRecomputes;

at::Tensor integers(const std::vector<std::int64_t>& values, torch::Device device) {
  return torch::tensor(values, torch::kInt64).to(device);
}

}  // namespace

void Record::add(const Draft& draft, std::int32_t number, std::int32_t place, const Pick& pick, bool counts_as_lesson) {
  places.push_back(place);
  drafts.push_back(number);
  picks.push_back(pick);
  divides.push_back(draft.divides(pick.choice) ? 1 : 0);
  counts.push_back(counts_as_lesson ? 1 : 0);
}

at::Tensor passage_logs(const Encoded& encoded, const Situation& situation) {
  std::vector<float> prior;
  for (int number = 0; number < kPassages; ++number) {
    const std::int64_t parts = Passage::numbered(number).micro_batches;
    prior.push_back(parts > situation.evaluator.batch() ? -1e9F : -kDoubling * std::log2(static_cast<float>(parts)));
  }
  return (encoded.passage + as_tensor(prior, {kPassages}, encoded.passage.device())).log_softmax(-1);
}

Passage draw_passage(const Encoded& encoded, const Situation& situation, double temperature, Draw& draw) {
  const at::Tensor logs = passage_logs(encoded, situation).to(torch::kCPU).contiguous();
  const std::span<const float> scores(logs.data_ptr<float>(), kPassages);
  return Passage::numbered(static_cast<int>(drawn(scores, temperature, draw)));
}

std::size_t drawn(std::span<const float> scores, double temperature, Draw& draw) {
  const auto best = std::ranges::max_element(scores) - scores.begin();
  const double chance = draw.uniform();
  if (temperature <= 0) return static_cast<std::size_t>(best);
  double sum = 0;
  const auto weight = [&](float score) {
    return std::exp((static_cast<double>(score) - static_cast<double>(scores[best])) / temperature);
  };
  for (const float score : scores) sum += weight(score);
  double left = chance * sum;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    left -= weight(scores[i]);
    if (left < 0) return i;
  }
  return static_cast<std::size_t>(best);
}

void decide(PolicyNetwork& network, const Encoded& encoded, const EncodedChoices& choices,
            std::span<const std::int32_t> places, std::vector<Draft>& drafts, std::span<const double> temperatures,
            Draw& draw, Record* record) {
  use_one_thread();
  const torch::NoGradGuard no_gradients;
  const auto count = static_cast<std::size_t>(choices.choices.size(0));
  const auto all = static_cast<std::int64_t>(drafts.size());
  for (const std::int32_t place : places) {
    std::vector<float> features;
    std::vector<char> allowed;
    for (const Draft& draft : drafts) draft.look(place, features, allowed);
    const PolicyNetwork::Scores scores =
        network.score(encoded, choices, integers(std::vector<std::int64_t>(drafts.size(), place), network.device()),
                      as_tensor(features, {all, static_cast<std::int64_t>(count), kStepFeatures}, network.device()));
    const at::Tensor on_host = scores.choice.to(torch::kCPU).contiguous();
    std::vector<std::int64_t> made;
    for (std::size_t d = 0; d < drafts.size(); ++d) {
      std::vector<float> row(on_host.data_ptr<float>() + d * count, on_host.data_ptr<float>() + (d + 1) * count);
      for (std::size_t c = 0; c < count; ++c) {
        if (allowed[d * count + c] == 0) row[c] = kNever;
      }
      made.push_back(static_cast<std::int64_t>(drawn(row, temperatures[d], draw)));
    }
    const at::Tensor rows = torch::arange(all, torch::kInt64).to(network.device());
    const at::Tensor rest =
        network.rest(scores.hidden.index({rows, integers(made, network.device())})).to(torch::kCPU).contiguous();
    for (std::size_t d = 0; d < drafts.size(); ++d) {
      const std::span<const float> row(rest.data_ptr<float>() + d * kRest, kRest);
      Pick pick;
      pick.choice = static_cast<std::int32_t>(made[d]);
      pick.mode = static_cast<ShareMode>(drawn(row.subspan(0, kShareModes), temperatures[d], draw));
      pick.gradient =
          static_cast<GradientMethod>(drawn(row.subspan(kGradientAt, kGradientMethods), temperatures[d], draw));
      pick.recompute = static_cast<Recompute>(drawn(row.subspan(kRecomputeAt, kRecomputes), temperatures[d], draw));
      drafts[d].decide(place, pick);
      if (record == nullptr) continue;
      record->add(drafts[d], static_cast<std::int32_t>(d), place, pick, true);
    }
    if (record == nullptr) continue;
    record->features.insert(record->features.end(), features.begin(), features.end());
    record->allowed.insert(record->allowed.end(), allowed.begin(), allowed.end());
  }
}

Likelihood likelihood(PolicyNetwork& network, const Encoded& encoded, const EncodedChoices& choices,
                      const Record& record) {
  const torch::Device device = network.device();
  const auto steps = static_cast<std::int64_t>(record.places.size());
  const std::int64_t count = choices.choices.size(0);
  const PolicyNetwork::Scores scores =
      network.score(encoded, choices, integers({record.places.begin(), record.places.end()}, device),
                    as_tensor(record.features, {steps, count, kStepFeatures}, device));
  const std::vector<float> mask(record.allowed.begin(), record.allowed.end());
  // Not -infinity: 0 times that is no number.
  const at::Tensor logs = scores.choice.masked_fill(as_tensor(mask, {steps, count}, device) == 0, -1e9).log_softmax(-1);

  std::vector<std::int64_t> made, mode, gradient, recompute;
  std::vector<float> divides, counts;
  for (std::size_t i = 0; i < record.picks.size(); ++i) {
    made.push_back(record.picks[i].choice);
    mode.push_back(static_cast<std::int64_t>(record.picks[i].mode));
    gradient.push_back(kGradientAt + static_cast<std::int64_t>(record.picks[i].gradient));
    recompute.push_back(kRecomputeAt + static_cast<std::int64_t>(record.picks[i].recompute));
    divides.push_back(static_cast<float>(record.divides[i]));
    counts.push_back(static_cast<float>(record.counts[i]));
  }
  const at::Tensor chosen = integers(made, device), counted = as_tensor(counts, {steps}, device);
  const at::Tensor several = as_tensor(divides, {steps}, device);
  const at::Tensor rows = torch::arange(steps, torch::TensorOptions(torch::kInt64).device(device));
  const at::Tensor rest = network.rest(scores.hidden.index({rows, chosen}));
  const at::Tensor parts = torch::cat(
      {rest.slice(1, 0, kGradientAt).log_softmax(-1), rest.slice(1, kGradientAt, kRecomputeAt).log_softmax(-1),
       rest.slice(1, kRecomputeAt, kRest).log_softmax(-1)},
      1);
  const auto of = [&](const std::vector<std::int64_t>& at) {
    return parts.gather(1, integers(at, device).unsqueeze(1)).squeeze(1);
  };
  return {logs.gather(1, chosen.unsqueeze(1)).squeeze(1) * counted,
          ((of(mode) + of(gradient)) * several + of(recompute)) * counted, -(logs.exp() * logs).sum(-1),
          (logs.argmax(-1) == chosen).to(torch::kFloat32) * counted};
}

}  // namespace motley
