#include "strategy/policy/training.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "compiler/serialize.h"
#include "strategy/policy/decide.h"
#include "strategy/policy/metrics_file.h"
#include "strategy/policy/policy.h"
#include "strategy/policy/weights.h"
#include "strategy/search/search.h"

namespace motley {

namespace {

constexpr std::int64_t kReportEvery = 10, kSaveEvery = 100, kHeldOutEvery = 50;
constexpr std::size_t kReinforced = 4;  // one lesson in so many, since simulating takes longer than learning
constexpr std::size_t kProposals = 8;   // of a held-out case
constexpr double kWorst = 20;           // times the best: what an infeasible strategy counts
constexpr double kLesson = 0.7;         // of the batch must be where the best has it for a choice to be its
constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8, kLargestNorm = 1;

// SplitMix64's finish (Steele, Lea, Flood, OOPSLA 2014): numbers that have nothing to do with each other.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

struct Lesson {
  std::vector<at::Tensor> gradients;
  double imitation = 0, agreement = 0, entropy = 0, sampled = 0;
  std::vector<Evaluation> evaluations;
};

class Trainer {
 public:
  explicit Trainer(const PolicyTraining& training)
      : training_(training), policy_(training.seed), network_(policy_.network()) {
    if (training.device != "cpu" && !torch::cuda::is_available()) {
      throw Error(ErrorKind::kInvalidInput, "device " + training.device + ": there is none here; leave --device out");
    }
    std::filesystem::create_directories(training.folder);
    if (std::filesystem::exists(checkpoint())) {
      resume();
    } else {
      if (!training.weights.empty()) load_weights(network_, training.weights);
      for (const auto& [name, weight] : weights_of(network_)) {
        first_.emplace_back("adam.first." + name, torch::zeros_like(weight));
        second_.emplace_back("adam.second." + name, torch::zeros_like(weight));
      }
    }
    network_.to(torch::Device(training.device));
    for (NamedTensors* moments : {&first_, &second_}) {
      for (auto& [name, tensor] : *moments) tensor = tensor.to(network_.device());
    }
    use_one_thread();
  }

  void run() {
    make_held_out();
    while (metrics_.step < training_.steps && !over()) {
      add_cases();
      learn();
      ++metrics_.step;
      if (metrics_.step % kReportEvery == 0 || metrics_.step == training_.steps) report();
      if (metrics_.step % kSaveEvery == 0) save();
    }
    save();
  }

 private:
  using Case = std::shared_ptr<TrainingCase>;

  std::filesystem::path checkpoint() const { return training_.folder / "checkpoint.safetensors"; }
  Seconds elapsed() const {
    return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count());
  }
  bool over() const { return training_.stop.stop_requested() || elapsed() >= training_.time; }

  Case searched(std::uint64_t number, std::int64_t evaluations, const Prior* prior) const {
    auto made = std::make_shared<TrainingCase>(training_.source, number);
    SearchOptions options;
    options.time = Seconds(1e9);
    options.evaluations = evaluations;
    options.seed = number;
    options.threads = 1;
    options.prior = prior;
    made->offer(search(made->evaluator(), options).best);
    return made;
  }
  // As it was when it was last saved.
  Case known(std::uint64_t number) const {
    auto made = std::make_shared<TrainingCase>(training_.source, number);
    made->offer(made->evaluator().evaluate(plans_.at(number)));
    return made;
  }

  void make_held_out() {
    held_out_.resize(static_cast<std::size_t>(training_.held_out));
    constexpr std::uint64_t kHeldOut = 0x68656c64;  // apart from all steps' numbers
    parallel_for(held_out_.size(), training_.threads, [&](std::size_t i) {
      const std::uint64_t number = mixed(mixed(training_.seed, kHeldOut), i);
      if (plans_.contains(number)) {
        held_out_[i] = known(number);
      } else if (metrics_.step == 0) {  // else nothing fitted
        held_out_[i] = searched(number, 4 * training_.evaluations, nullptr);
      }
    });
    for (std::size_t i = 0; i < held_out_.size(); ++i) {
      const std::uint64_t number = mixed(mixed(training_.seed, kHeldOut), i);
      held_out_numbers_.push_back(number);
      if (held_out_[i] && std::isfinite(held_out_[i]->seconds())) plans_[number] = held_out_[i]->best();
    }
    std::erase_if(held_out_, [](const Case& one) { return !one || std::isinf(one->seconds()); });
  }

  void add_cases() {
    std::vector<Case> made(static_cast<std::size_t>(training_.fresh));
    const std::uint64_t here = mixed(training_.seed, static_cast<std::uint64_t>(metrics_.step));
    parallel_for(made.size(), training_.threads, [&](std::size_t i) {
      made[i] = searched(mixed(here, i), training_.evaluations, i % 2 == 0 ? &policy_ : nullptr);
    });
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (std::isinf(made[i]->seconds())) continue;  // nothing fits
      order_.push_back(mixed(here, i));
      plans_[order_.back()] = made[i]->best();
      cases_[order_.back()] = std::move(made[i]);
    }
    while (static_cast<std::int64_t>(order_.size()) > training_.kept) {
      plans_.erase(order_.front());
      cases_.erase(order_.front());
      order_.pop_front();
    }
  }

  void learn() {
    if (order_.empty()) return;
    Draw draw(mixed(mixed(training_.seed, static_cast<std::uint64_t>(metrics_.step)), 0x6c6561726e));
    std::vector<std::uint64_t> numbers, seeds;
    std::set<std::uint64_t> missing;
    for (std::int64_t i = 0; i < training_.lessons; ++i) {
      numbers.push_back(order_[draw.word() % order_.size()]);
      seeds.push_back(draw.word());
      if (!cases_.contains(numbers.back())) missing.insert(numbers.back());
    }
    const std::vector<std::uint64_t> lost(missing.begin(), missing.end());
    std::vector<Case> found(lost.size());
    parallel_for(lost.size(), training_.threads, [&](std::size_t i) { found[i] = known(lost[i]); });
    for (std::size_t i = 0; i < lost.size(); ++i) cases_[lost[i]] = found[i];

    std::vector<Lesson> lessons(numbers.size());
    const int threads = training_.device == "cpu" ? training_.threads : 1;
    parallel_for(lessons.size(), threads,
                 [&](std::size_t i) { lessons[i] = lesson(*cases_.at(numbers[i]), seeds[i], i % kReinforced == 0); });
    for (std::size_t i = 0; i < lessons.size(); ++i) {
      bool improved = false;
      for (const Evaluation& evaluation : lessons[i].evaluations) {
        improved = cases_.at(numbers[i])->offer(evaluation) || improved;
      }
      if (improved) plans_[numbers[i]] = cases_.at(numbers[i])->best();
      metrics_.improved += improved ? 1 : 0;
      metrics_.imitation += lessons[i].imitation;
      metrics_.agreement += lessons[i].agreement;
      metrics_.entropy += lessons[i].entropy;
      metrics_.sampled += lessons[i].sampled;
      ++lessons_;
      if (i % kReinforced == 0) ++reinforced_;
    }
    update(lessons);
  }

  Lesson lesson(const TrainingCase& one, std::uint64_t seed, bool reinforced) {
    Draw draw(seed);
    Lesson result;
    const Encoded encoded = network_.encode(one.situation());
    at::Tensor loss = imitate(one, encoded, draw, result);
    if (reinforced && training_.samples > 1)
      loss = loss + training_.reinforcement * reinforce(one, encoded, draw, result);
    std::vector<at::Tensor> weights;
    for (const auto& [name, weight] : weights_of(network_)) weights.push_back(weight);
    result.gradients = torch::autograd::grad({loss}, weights, {}, std::nullopt, false, /*allow_unused=*/true);
    return result;
  }

  // All places, or a run of them, or those that decide like one of them.
  static std::vector<char> opened(const TrainingCase& one, Draw& draw) {
    const Situation& situation = one.situation();
    const auto places = static_cast<std::int64_t>(situation.places());
    if (draw.chance(0.5)) return std::vector<char>(situation.places(), 1);
    std::vector<char> open(situation.places(), 0);
    const std::int64_t at = draw.between(0, places - 1);
    if (draw.chance(0.7)) {
      const auto length = static_cast<std::int64_t>(draw.log_between(1, static_cast<double>(places) + 1));
      for (std::int64_t place = at; place < std::min(places, at + length); ++place) open[place] = 1;
    } else {
      const auto& groups = one.best().groups;
      for (std::int64_t place = 0; place < places; ++place) {
        open[place] = groups[situation.order[place]].shares == groups[situation.order[at]].shares ? 1 : 0;
      }
    }
    return open;
  }

  at::Tensor imitate(const TrainingCase& one, const Encoded& encoded, Draw& draw, Lesson& result) {
    const Situation& situation = one.situation();
    const std::vector<char> open = opened(one, draw);
    Choices choices = one.choices();
    Draft::add_choices(situation, choices, one.best(), open);
    const EncodedChoices encoded_choices = network_.encode(encoded, choices);
    const bool all = std::ranges::find(open, 0) == open.end();
    const Passage passage{one.best().micro_batches, has_stages(one.best())};
    Draft draft = all ? Draft(situation, choices, passage) : Draft(situation, choices, one.best(), open);
    Record record;
    for (std::int32_t place = 0; place < static_cast<std::int32_t>(open.size()); ++place) {
      if (open[place] == 0) continue;
      const std::size_t at = record.allowed.size();
      draft.look(place, record.features, record.allowed);
      const Draft::Nearest nearest = draft.nearest(place, one.best().groups[situation.order[place]]);
      const bool is_lesson = nearest.common >= kLesson && record.allowed[at + nearest.pick.choice] != 0;
      record.add(draft, 0, place, nearest.pick, is_lesson);
      draft.decide(place, nearest.pick);
    }
    const Likelihood made = likelihood(network_, encoded, encoded_choices, record);
    const double counted = std::max<double>(1, std::ranges::count(record.counts, 1));
    result.imitation = -made.choice.sum().item<double>() / counted;
    result.agreement = made.likeliest.sum().item<double>() / counted;
    at::Tensor loss = -(made.choice.sum() + 0.5 * made.rest.sum()) / counted;
    if (all) loss = loss - 0.5 * passage_logs(encoded, situation)[passage.number()];
    return loss;
  }

  at::Tensor reinforce(const TrainingCase& one, const Encoded& encoded, Draw& draw, Lesson& result) {
    const Situation& situation = one.situation();
    const EncodedChoices choices = network_.encode(encoded, one.choices());
    std::vector<Draft> drafts;
    std::vector<int> passages;
    for (std::int64_t s = 0; s < training_.samples; ++s) {
      const Passage passage = draw_passage(encoded, situation, 1, draw);
      passages.push_back(passage.number());
      drafts.emplace_back(situation, one.choices(), passage);
    }
    const std::vector<std::int32_t> places = situation.all_places();
    Record record;
    decide(network_, encoded, choices, places, drafts, std::vector<double>(drafts.size(), 1), draw, &record);
    std::vector<double> rewards;
    double mean = 0;
    for (const Draft& draft : drafts) {
      result.evaluations.push_back(one.evaluator().evaluate(draft.strategy()));
      rewards.push_back(-std::log(times_best(one, result.evaluations.back())));
      mean += rewards.back() / static_cast<double>(drafts.size());
    }
    result.sampled = -mean;
    const Likelihood made = likelihood(network_, encoded, choices, record);
    result.entropy = made.entropy.mean().item<double>();
    std::vector<float> advantage;
    for (const std::int32_t draft : record.drafts) advantage.push_back(static_cast<float>(rewards[draft] - mean));
    const at::Tensor weights = as_tensor(advantage, {static_cast<std::int64_t>(advantage.size())}, network_.device());
    const auto n = static_cast<double>(drafts.size());
    at::Tensor gained = (weights * (made.choice + made.rest)).sum() / n;
    const at::Tensor logs = passage_logs(encoded, situation);
    for (std::size_t d = 0; d < drafts.size(); ++d) gained = gained + (rewards[d] - mean) / n * logs[passages[d]];
    return -gained / std::sqrt(static_cast<double>(places.size())) - training_.entropy * made.entropy.mean();
  }

  // The time of an evaluation over the best known, 1 / kWorst to kWorst; infeasible: kWorst, and more the more is
  // lacking.
  static double times_best(const TrainingCase& one, const Evaluation& evaluation) {
    if (evaluation.not_compilable) return 2 * kWorst;
    if (evaluation.feasible()) {
      return std::clamp(evaluation.simulation.iteration.value / one.seconds(), 1 / kWorst, kWorst);
    }
    double room = 0;
    for (const double bytes : one.situation().room) room += std::max(bytes, 1.0);
    return kWorst * (1 + std::min(1.0, static_cast<double>(evaluation.overflow().value) / room));
  }

  void update(const std::vector<Lesson>& lessons) {
    const torch::NoGradGuard no_gradients;
    const NamedTensors weights = weights_of(network_);
    std::vector<at::Tensor> sums;
    double norm = 0;
    for (std::size_t w = 0; w < weights.size(); ++w) {
      at::Tensor sum = torch::zeros_like(weights[w].second);
      for (const Lesson& one : lessons) {
        if (one.gradients[w].defined()) sum += one.gradients[w];
      }
      sum /= static_cast<double>(lessons.size());
      norm += sum.square().sum().item<double>();
      sums.push_back(sum);
    }
    const double scale = std::min(1.0, kLargestNorm / std::max(std::sqrt(norm), 1e-12));
    const auto step = static_cast<double>(metrics_.step + 1);
    const double rate = training_.learning_rate * std::min(1.0, step / 50) * std::sqrt(1 - std::pow(kBeta2, step)) /
                        (1 - std::pow(kBeta1, step));
    for (std::size_t w = 0; w < weights.size(); ++w) {
      const at::Tensor gradient = sums[w] * scale;
      at::Tensor& first = first_[w].second;
      at::Tensor& second = second_[w].second;
      first.mul_(kBeta1).add_(gradient, 1 - kBeta1);
      second.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
      at::Tensor(weights[w].second).addcdiv_(first, second.sqrt() + kEpsilon, -rate);
    }
  }

  double judge_held_out() const {
    std::vector<double> logs(held_out_.size());
    parallel_for(held_out_.size(), training_.threads, [&](std::size_t i) {
      const TrainingCase& one = *held_out_[i];
      double best = kWorst;
      for (const Strategy& strategy : policy_.guide(one.evaluator())->propose(kProposals, i)) {
        best = std::min(best, times_best(one, one.evaluator().evaluate(strategy)));
      }
      logs[i] = std::log(best);
    });
    double sum = 0;
    for (const double log : logs) sum += log;
    return std::exp(sum / static_cast<double>(std::max<std::size_t>(1, logs.size())));
  }

  void report() {
    PolicyMetrics metrics = metrics_;
    const auto n = static_cast<double>(std::max<std::int64_t>(1, lessons_));
    metrics.elapsed = elapsed() + before_;
    metrics.cases = static_cast<std::int64_t>(order_.size());
    metrics.imitation /= n;
    metrics.agreement /= n;
    const auto drawn = static_cast<double>(std::max<std::int64_t>(1, reinforced_));
    metrics.entropy /= drawn;
    metrics.improved /= drawn;
    metrics.sampled = std::exp(metrics.sampled / drawn);
    if (metrics.step % kHeldOutEvery == 0 || metrics.step == training_.steps) metrics.held_out = judge_held_out();
    append_metrics(training_.folder / "metrics.csv", metrics);
    if (training_.progress) training_.progress(metrics);
    metrics_ = {metrics.step};
    lessons_ = reinforced_ = 0;
  }

  void save() {
    std::vector<at::Tensor> storage;
    const Metadata metadata = {{"motley_policy", kPolicyFormat},
                               {"seed", std::to_string(training_.seed)},
                               {"step", std::to_string(metrics_.step)},
                               {"seconds", std::to_string((elapsed() + before_).value)}};
    const std::vector<NamedTensor> weights = on_file(weights_of(network_), storage);
    write_safetensors(training_.folder / "weights.safetensors", weights, metadata);
    std::vector<NamedTensor> all = weights;
    for (const NamedTensors* moments : {&first_, &second_}) {
      for (NamedTensor& tensor : on_file(*moments, storage)) all.push_back(std::move(tensor));
    }
    std::deque<std::string> plans;
    const auto add_plan = [&](const std::string& kind, std::uint64_t number) {
      plans.push_back(serialize(plans_.at(number)));
      all.push_back({kind + std::to_string(number),
                     DType::kUInt8,
                     {static_cast<std::int64_t>(plans.back().size())},
                     std::as_bytes(std::span(plans.back()))});
    };
    std::size_t at = 0;  // names keep the order
    for (const std::uint64_t number : order_) add_plan("plan." + std::to_string(at++) + ".", number);
    for (const std::uint64_t number : held_out_numbers_) {
      if (plans_.contains(number)) add_plan("held_out.", number);
    }
    write_safetensors(checkpoint(), all, metadata);
  }

  void resume() {
    const SafetensorsFile file(checkpoint());
    const std::string path = checkpoint().string();
    load_tensors(weights_of(network_), file, path);
    for (const auto& [name, weight] : weights_of(network_)) {
      first_.emplace_back("adam.first." + name, torch::zeros_like(weight));
      second_.emplace_back("adam.second." + name, torch::zeros_like(weight));
    }
    load_tensors(first_, file, path);
    load_tensors(second_, file, path);
    metrics_.step = std::stoll(file.metadata().at("step"));
    before_ = Seconds(std::stod(file.metadata().at("seconds")));
    std::map<std::size_t, std::uint64_t> order;
    for (const NamedTensor& tensor : file.tensors()) {
      const bool kept = tensor.name.starts_with("plan.");
      if (!kept && !tensor.name.starts_with("held_out.")) continue;
      const std::uint64_t number = std::stoull(tensor.name.substr(tensor.name.rfind('.') + 1));
      const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      plans_[number] = deserialize_strategy(bytes, path);
      if (kept) order[std::stoull(tensor.name.substr(5))] = number;
    }
    for (const auto& [at, number] : order) order_.push_back(number);
  }

  const PolicyTraining& training_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Seconds before_;  // of earlier runs
  Policy policy_;
  PolicyNetwork& network_;
  NamedTensors first_, second_;              // moments of the gradients
  std::deque<std::uint64_t> order_;          // numbers of the cases that are kept, the oldest first
  std::map<std::uint64_t, Strategy> plans_;  // the best known, by number; of held-out cases too
  std::map<std::uint64_t, Case> cases_;      // those at hand; others are made again when they are drawn
  std::vector<std::uint64_t> held_out_numbers_;
  std::vector<Case> held_out_;
  PolicyMetrics metrics_;  // sums since the last report
  std::int64_t lessons_ = 0, reinforced_ = 0;
};

}  // namespace

void train_policy(const PolicyTraining& training) { Trainer(training).run(); }

}  // namespace motley
