#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

constexpr int kDevices = 4;

// Random strategies, executed on plain arrays, against the same on one device; and that one against its definition.
class OracleTest : public testing::TestWithParam<ChainOptions> {
 protected:
  OracleTest() : graph_(support::chain_graph(GetParam())), costs_(graph_, {4, 2, 1, 3}) {
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
  Strategy random_pipeline(std::mt19937& random) const {
    Strategy strategy = random_strategy(random);
    const std::vector<std::string> names = schedule_names();
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

  Deployment deploy(const Strategy& strategy) const {
    auto result = Compiler(graph_, cluster_, costs_).compile(strategy, kBatch);
    Deployment deployment = std::get<Deployment>(result);
    check(deployment);
    return deployment;
  }

  void trains_as_one_device(const Strategy& strategy, std::uint32_t seed) const {
    const std::string about = "seed " + std::to_string(seed) + ": " + std::to_string(strategy.groups.back().stage) +
                              " cuts, " + std::to_string(strategy.micro_batches) + " micro-batches, " +
                              strategy.schedule;
    const Deployment alone = deploy(one_device());
    Interpreter reference(graph_, alone, 1);
    const Deployment deployment = deploy(strategy);
    Interpreter interpreter(graph_, deployment, seed);
    for (int i = 0; i < 3; ++i) ASSERT_NEAR(interpreter.step(x_), reference.step(x_), 1e-9) << about;
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

  static constexpr std::int64_t kBatch = 11;
  Graph graph_;
  Cluster cluster_ = support::star_cluster(kDevices, {BytesPerSecond(100), BytesPerSecond(50)}, Seconds(0.1));
  support::FixedCosts costs_;
  Array x_;
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
    Strategy strategy = random_pipeline(random);
    // The square of the whole mean is not the mean of micro-batches' squares.
    if (GetParam().balance && strategy.micro_batches > 1) {
      const auto result = Compiler(graph_, cluster_, costs_).compile(strategy, kBatch);
      ASSERT_TRUE(std::holds_alternative<NotCompilable>(result));
      strategy.micro_batches = 1;
    }
    trains_as_one_device(strategy, random());
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
