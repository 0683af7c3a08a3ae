#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "compiler/compiler.h"
#include "compiler/schedule/schedule.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"
#include "tests/support/interpreter.h"

namespace motley {
namespace {

using support::Array;
using support::ChainOptions;
using support::Interpreter;

constexpr int kDevices = 6;

// Random strategies, executed on plain arrays, against the same on one device; and that one against its definition.
class OracleTest : public testing::TestWithParam<ChainOptions> {
 protected:
  OracleTest() : graph_(support::chain_graph(GetParam())), costs_(graph_, {4, 2, 1, 3, 5, 2}) {
    graph_.optimizer.learning_rate = 0.1;
    std::mt19937 random(1);
    for (std::int64_t i = 0; i < kBatch * GetParam().width; ++i) {
      x_.push_back(std::uniform_real_distribution<>(-1, 1)(random));
    }
    // Of every magnitude, so that schedules differ from the graph's order.
    for (double& seconds : costs_.seconds_per_sample) {
      seconds = std::exp(std::uniform_real_distribution<>(-5, 5)(random));
    }
  }

  Strategy one_device() const {
    Strategy strategy;
    strategy.groups.assign(graph_.groups.size(), {{{0, 1.0}}, GradientMethod::kAllReduce});
    return strategy;
  }

  Strategy random_strategy(std::mt19937& random) const {
    Strategy strategy;
    strategy.bucket = Bytes(1 + static_cast<std::int64_t>(random() % 200));
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      GroupDecision decision;
      decision.gradient = random() % 2 ? GradientMethod::kAllReduce : GradientMethod::kParameterServer;
      for (DeviceIndex device = 0; device < kDevices; ++device) {
        if (random() % 2) decision.shares.push_back({device, 1.0 + static_cast<double>(random() % 4)});
      }
      if (decision.shares.empty()) decision.shares = {{static_cast<DeviceIndex>(random() % kDevices), 1.0}};
      decision.recompute = static_cast<Recompute>(random() % 3);
      const bool repeat = g > 0 && random() % 3 == 0;
      strategy.groups.push_back(repeat ? strategy.groups.back() : decision);
    }
    return strategy;
  }

  // Stages of consecutive groups, each rank with devices of its own, and micro-batches that the batch need not divide
  // by.
  Strategy random_pipeline(std::mt19937& random, const std::vector<std::string>& names) const {
    Strategy strategy = random_strategy(random);
    strategy.schedule = names[random() % names.size()];
    const bool v_shape = strategy.schedule == "zb-v";
    const std::size_t most = strategy.schedule == "interleaved-1f1b" ? 3 : 1;
    const std::size_t chunks = std::min<std::size_t>(v_shape ? 2 : 1 + random() % most, strategy.groups.size());
    const std::size_t ranks = 1 + random() % std::min<std::size_t>(kDevices, strategy.groups.size() / chunks);
    std::vector<DeviceIndex> devices(kDevices);
    std::iota(devices.begin(), devices.end(), 0);
    std::shuffle(devices.begin(), devices.end(), random);
    std::vector<std::vector<Share>> shares(ranks);
    for (std::size_t d = 0; d < kDevices; ++d) {
      shares[d < ranks ? d : random() % ranks].push_back({devices[d], 1.0 + static_cast<double>(random() % 3)});
    }
    std::size_t widest = 0;
    for (std::vector<Share>& one : shares) {
      std::ranges::sort(one, {}, &Share::device);
      widest = std::max(widest, one.size());
    }
    for (std::size_t g = 0; g < strategy.groups.size(); ++g) {
      const std::size_t stage = g * ranks * chunks / strategy.groups.size();
      strategy.groups[g].stage = static_cast<std::int32_t>(stage);
      strategy.groups[g].shares = shares[v_shape && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks];
    }
    strategy.micro_batches = 1 + static_cast<std::int64_t>(random() % (kBatch / widest));
    return strategy;
  }

  Deployment deploy(const Strategy& strategy, std::int64_t batch = kBatch) const {
    auto result = Compiler(graph_, cluster_, costs_).compile(strategy, batch);
    Deployment deployment = std::get<Deployment>(result);
    check(deployment);
    return deployment;
  }

  void trains_as_one_device(const Strategy& strategy, std::uint32_t seed, int iterations = 3) const {
    const std::string about = "seed " + std::to_string(seed) + ": " + std::to_string(strategy.groups.back().stage) +
                              " cuts, " + std::to_string(strategy.micro_batches) + " micro-batches, " +
                              strategy.schedule;
    const Deployment alone = deploy(one_device());
    Interpreter reference(graph_, alone, 1);
    const Deployment deployment = deploy(strategy);
    Interpreter interpreter(graph_, deployment, seed);
    for (int i = 0; i < iterations; ++i) ASSERT_NEAR(interpreter.step(x_), reference.step(x_), 1e-9) << about;
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.role != TensorRole::kParameter) continue;
      const Array expected = reference.parameter(tensor.name, 0);
      for (DeviceIndex device = 0; device < kDevices; ++device) {
        const Array found = interpreter.parameter(tensor.name, device);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 1e-9) << tensor.name << " on device " << device << ", " << about;
        }
      }
    }
  }

  // Ends of the parts in which an iteration's micro-batches are updated by, and how many of its updates the weights of
  // a stage have had when a micro-batch takes them: as the papers say it, of p stages.
  struct Delay {
    std::vector<std::int64_t> ends;
    std::function<std::int64_t(std::int64_t micro_batch, std::int64_t stage)> taken;
  };
  // Narayanan et al., SOSP 2019: after each micro-batch; stage s lacks the updates of the p - 1 - s before.
  static Delay pipedream(std::int64_t p, std::int64_t micro_batches) {
    Delay delay;
    for (std::int64_t m = 0; m < micro_batches; ++m) delay.ends.push_back(m + 1);
    delay.taken = [p](std::int64_t m, std::int64_t s) { return std::max<std::int64_t>(0, m - (p - 1 - s)); };
    return delay;
  }
  // Narayanan et al., ICML 2021: after p micro-batches or more; all stages lack the update of the batch before.
  static Delay pipedream_2bw(std::int64_t p, std::int64_t micro_batches) {
    Delay delay;
    const std::int64_t batches = std::max<std::int64_t>(1, micro_batches / p);
    for (std::int64_t b = 0; b < batches; ++b) {
      const std::int64_t begin = b == 0 ? 0 : delay.ends.back();
      delay.ends.push_back(begin + micro_batches / batches + (b < micro_batches % batches ? 1 : 0));
    }
    delay.taken = [ends = delay.ends](std::int64_t m, std::int64_t) {
      const auto batch = std::ranges::upper_bound(ends, m) - ends.begin();
      return std::max<std::int64_t>(0, batch - 1);
    };
    return delay;
  }

  // Weights that lack updates: micro-batch after micro-batch on one device.
  class Sequential {
   public:
    Sequential(const OracleTest& test, const Strategy& strategy, Delay delay)
        : test_(test), strategy_(strategy), delay_(std::move(delay)) {
      for (std::size_t g = 0; g < test.graph_.groups.size(); ++g) {
        for (TensorId id : test.graph_.groups[g].parameters) {
          const Tensor& tensor = test.graph_.tensors[id];
          const auto size = static_cast<std::size_t>(element_count(tensor.shape).at(0));
          // Tied weights are in the group that uses them first, and as late as they are there.
          parameters_.push_back(
              {tensor.name, strategy.groups[g].stage, Interpreter::initial_value(tensor.name, size), Array(size)});
        }
      }
    }

    double step() {
      const std::int64_t micro_batches = strategy_.micro_batches;
      for (Parameter& parameter : parameters_) parameter.versions = {parameter.versions.back()};
      double loss = 0;
      std::int64_t first = 0, begin = 0;
      for (std::int64_t end : delay_.ends) {
        std::int64_t of_batch = 0;
        for (std::int64_t m = begin; m < end; ++m) of_batch += samples(m);
        for (Parameter& parameter : parameters_) parameter.gradient.assign(parameter.momentum.size(), 0);
        for (std::int64_t m = begin; m < end; ++m) {
          loss += add_gradients(m, first, of_batch) * samples(m) / kBatch;
          first += samples(m);
        }
        for (Parameter& parameter : parameters_) parameter.update(test_.graph_.optimizer);
        begin = end;
      }
      EXPECT_EQ(begin, micro_batches);
      return loss;
    }
    const Array& value(const std::string& name) const {
      return std::ranges::find(parameters_, name, &Parameter::name)->versions.back();
    }

   private:
    struct Parameter {
      std::string name;
      std::int64_t stage;
      std::vector<Array> versions;  // in this iteration
      Array momentum, gradient;
      Parameter(std::string name_, std::int64_t stage_, const Array& value, Array zeros)
          : name(std::move(name_)), stage(stage_), versions{value}, momentum(std::move(zeros)) {}
      void update(const OptimizerOptions& options) {
        Array next = versions.back();
        for (std::size_t i = 0; i < next.size(); ++i) {
          momentum[i] = options.momentum * momentum[i] + gradient[i];
          next[i] -= options.learning_rate * momentum[i];
        }
        versions.push_back(next);
      }
    };
    std::int64_t samples(std::int64_t m) const {
      return kBatch / strategy_.micro_batches + (m < kBatch % strategy_.micro_batches ? 1 : 0);
    }
    // Of a micro-batch alone on one device, whose first step subtracts its gradient; the mean over it.
    double add_gradients(std::int64_t m, std::int64_t first, std::int64_t of_batch) {
      Interpreter alone(test_.graph_, test_.alone(samples(m)), 1);
      for (const Parameter& parameter : parameters_) {
        alone.set_parameter(parameter.name, parameter.versions[delay_.taken(m, parameter.stage)]);
      }
      const auto row = static_cast<std::ptrdiff_t>(GetParam().width);
      const double loss =
          alone.step(Array(test_.x_.begin() + first * row, test_.x_.begin() + (first + samples(m)) * row));
      for (Parameter& parameter : parameters_) {
        const Array& before = parameter.versions[delay_.taken(m, parameter.stage)];
        const Array after = alone.parameter(parameter.name, 0);
        for (std::size_t i = 0; i < before.size(); ++i) {
          parameter.gradient[i] +=
              (before[i] - after[i]) / test_.graph_.optimizer.learning_rate * samples(m) / of_batch;
        }
      }
      return loss;
    }

    const OracleTest& test_;
    const Strategy& strategy_;
    const Delay delay_;
    std::vector<Parameter> parameters_;
  };

  const Deployment& alone(std::int64_t batch) const {
    const auto [known, fresh] = alone_.try_emplace(batch);
    if (fresh) known->second = deploy(one_device(), batch);
    return known->second;
  }

  void trains_with_delay(const Strategy& strategy, std::uint32_t seed, int iterations = 3) const {
    const std::int64_t p = strategy.groups.back().stage + 1, m = strategy.micro_batches;
    const std::string about = "seed " + std::to_string(seed) + ": " + std::to_string(p) + " stages, " +
                              std::to_string(m) + " micro-batches, " + strategy.schedule;
    Sequential reference(*this, strategy, strategy.schedule == "pipedream" ? pipedream(p, m) : pipedream_2bw(p, m));
    const Deployment deployment = deploy(strategy);
    Interpreter interpreter(graph_, deployment, seed);
    for (int i = 0; i < iterations; ++i) ASSERT_NEAR(interpreter.step(x_), reference.step(), 1e-9) << about;
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.role != TensorRole::kParameter) continue;
      const Array expected = reference.value(tensor.name);
      for (DeviceIndex device = 0; device < kDevices; ++device) {
        const Array found = interpreter.parameter(tensor.name, device);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 1e-9) << tensor.name << " on device " << device << ", " << about;
        }
      }
    }
  }

  static constexpr std::int64_t kBatch = 13;
  Graph graph_;
  Cluster cluster_ = support::star_cluster(kDevices, {BytesPerSecond(100), BytesPerSecond(50)}, Seconds(0.1));
  support::FixedCosts costs_;
  Array x_;
  mutable std::map<std::int64_t, Deployment> alone_;  // by batch: on one device
};

// d loss / d p, by central differences, is what the update subtracted over the learning rate.
TEST_P(OracleTest, OneDeviceFollowsTheDefinition) {
  const Deployment deployment = deploy(one_device());
  for (const Tensor& tensor : graph_.tensors) {
    if (tensor.role != TensorRole::kParameter) continue;
    const auto loss_at = [&](double nudge) {
      Interpreter interpreter(graph_, deployment, 1);
      Array value = interpreter.parameter(tensor.name, 0);
      value[1] += nudge;
      interpreter.set_parameter(tensor.name, value);
      return interpreter.step(x_);
    };
    Interpreter interpreter(graph_, deployment, 1);
    const double before = interpreter.parameter(tensor.name, 0)[1];
    interpreter.step(x_);
    const double gradient = (before - interpreter.parameter(tensor.name, 0)[1]) / 0.1;
    EXPECT_NEAR(gradient, (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6, 1e-6) << tensor.name;
  }
}

TEST_P(OracleTest, AnyStrategyTrainsAsOneDevice) {
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) trains_as_one_device(random_strategy(random), random());
}

TEST_P(OracleTest, AnyPipelineTrainsAsOneDevice) {
  std::mt19937 random(8);
  for (int round = 0; round < 150; ++round) {
    Strategy strategy = random_pipeline(random, synchronous_schedules());
    // The square of the whole mean is not the mean of micro-batches' squares.
    if (GetParam().balance && strategy.micro_batches > 1) {
      const auto result = Compiler(graph_, cluster_, costs_).compile(strategy, kBatch);
      ASSERT_TRUE(std::holds_alternative<NotCompilable>(result));
      strategy.micro_batches = 1;
    }
    trains_as_one_device(strategy, random());
  }
}

TEST_P(OracleTest, AsynchronousPipelinesLackTheUpdatesThatTheyMust) {
  std::mt19937 random(9);
  for (int round = 0; round < 150; ++round) {
    Strategy strategy = random_pipeline(random, {"pipedream", "pipedream-2bw"});
    if (GetParam().balance) strategy.micro_batches = 1;
    trains_with_delay(strategy, random());
  }
}

// Sending the last layer's gradient takes so long that a schedule wants it before the input gradient that still reads
// the weights; but the new weights, which come back in return, must not be there before that has run.
TEST_P(OracleTest, NewWeightsWaitForTheReadersOfTheOld) {
  const Deployment alone = deploy(one_device());
  Interpreter reference(graph_, alone, 1);
  double losses[3];
  for (double& loss : losses) loss = reference.step(x_);
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    costs_.seconds_per_sample[i] = graph_.ops[i].kind == OpKind::kInputGradient ? 0.1 : 0.001;
  }
  Strategy strategy = one_device();
  for (GroupDecision& decision : strategy.groups) {
    decision = {{{0, 1.0}, {1, 1.0}}, GradientMethod::kParameterServer};
  }
  const Deployment deployment = deploy(strategy);
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Interpreter interpreter(graph_, deployment, seed);
    for (double loss : losses) ASSERT_NEAR(interpreter.step(x_), loss, 1e-9);
  }
}

// Every schedule, on 1 to 6 sets of devices, with 1 to 13 micro-batches.
class EverySizeTest : public OracleTest {};

TEST_P(EverySizeTest, RunsToItsEnd) {
  const std::vector<std::string> synchronous = synchronous_schedules();
  std::mt19937 random(10);
  for (const std::string& schedule : schedule_names()) {
    const bool v_shape = schedule == "zb-v";
    const std::size_t chunks = v_shape || schedule == "interleaved-1f1b" ? 2 : 1;
    for (std::size_t ranks = 1; ranks <= kDevices; ++ranks) {
      Strategy strategy = one_device();
      strategy.schedule = schedule;
      for (std::size_t g = 0; g < strategy.groups.size(); ++g) {
        const std::size_t stage = g * ranks * chunks / strategy.groups.size();
        const std::size_t rank = v_shape && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
        strategy.groups[g] = {.shares = {{static_cast<DeviceIndex>(rank), 1.0}},
                              .stage = static_cast<std::int32_t>(stage)};
      }
      for (strategy.micro_batches = 1; strategy.micro_batches <= kBatch; ++strategy.micro_batches) {
        const bool as_one = std::ranges::find(synchronous, schedule) != synchronous.end();
        as_one ? trains_as_one_device(strategy, random(), 1) : trains_with_delay(strategy, random(), 2);
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, EverySizeTest,
                         testing::Values(ChainOptions{.layers = 12, .width = 2, .residual = true},
                                         ChainOptions{.layers = 12, .width = 2, .tied = true, .momentum = 0.5}));
INSTANTIATE_TEST_SUITE_P(Graphs, OracleTest,
                         testing::Values(ChainOptions{.layers = 3, .width = 3},
                                         ChainOptions{.layers = 4, .width = 2, .residual = true},
                                         ChainOptions{.layers = 3, .width = 2, .tied = true, .momentum = 0.9},
                                         ChainOptions{.layers = 3, .width = 3, .shared = true},
                                         ChainOptions{.layers = 2, .width = 3, .balance = true},
                                         ChainOptions{.layers = 9, .width = 2, .residual = true, .tied = true},
                                         ChainOptions{.layers = 4,
                                                      .width = 2,
                                                      .residual = true,
                                                      .tied = true,
                                                      .shared = true,
                                                      .balance = true,
                                                      .momentum = 0.5}));

}  // namespace
}  // namespace motley
