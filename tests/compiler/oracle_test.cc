#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/compiler.h"
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
      const bool repeat = g > 0 && random() % 3 == 0;
      strategy.groups.push_back(repeat ? strategy.groups.back() : decision);
    }
    return strategy;
  }

  Deployment deploy(const Strategy& strategy) const {
    auto result = Compiler(graph_, cluster_, costs_).compile(strategy, kBatch);
    Deployment deployment = std::get<Deployment>(result);
    check(deployment);
    return deployment;
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
  const Deployment alone = deploy(one_device());
  Interpreter reference(graph_, alone, 1);
  double losses[3];
  for (double& loss : losses) loss = reference.step(x_);
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    const Deployment deployment = deploy(random_strategy(random));
    Interpreter interpreter(graph_, deployment, random());
    for (double loss : losses) ASSERT_NEAR(interpreter.step(x_), loss, 1e-9) << "round " << round;
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.role != TensorRole::kParameter) continue;
      const Array expected = reference.parameter(tensor.name, 0);
      for (DeviceIndex device = 0; device < kDevices; ++device) {
        const Array found = interpreter.parameter(tensor.name, device);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 1e-9) << tensor.name << " round " << round << " device " << device;
        }
      }
    }
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
                                         ChainOptions{.layers = 4,
                                                      .width = 2,
                                                      .residual = true,
                                                      .tied = true,
                                                      .shared = true,
                                                      .balance = true,
                                                      .momentum = 0.5}));

}  // namespace
}  // namespace motley
