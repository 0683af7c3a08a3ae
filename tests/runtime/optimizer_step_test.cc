#include <gmock/gmock.h>

#include <fstream>

#include "runtime/executor.h"
#include "tests/runtime/one_op.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

// A parameter (1, -2, 3) meets the gradients (t, -t / 2, 0.1) at steps t = 1 to 5; PyTorch prints where it ends.
constexpr const char* kPyTorch = R"(import sys, torch
for kind, options in [
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9, weight_decay=0.01)),
    ("Adam", dict(lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.01)),
    ("AdamW", dict(lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.01)),
]:
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = getattr(torch.optim, kind)([p], **options)
    for t in range(1, 6):
        p.grad = torch.tensor([t, -t / 2, 0.1])
        optimizer.step()
    print(*p.tolist(), file=open(sys.argv[1], "a")))";

class OptimizerStepTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder;
    run_python(kPyTorch, (folder / "ends").string());
    std::ifstream file(folder / "ends");
    for (std::array<float, 3>& end : pytorch_) file >> end[0] >> end[1] >> end[2];
  }

  // Where the same steps end here, with this many states.
  static std::vector<float> end(const OptimizerOptions& options, int states) {
    Graph graph = graph_of(options, states);
    const std::unique_ptr<Executor> executor = Executor::open("cpu", graph);
    std::vector<TensorHandle> inputs = {executor->from_host(floats({3}, {1, -2, 3}).view()), nullptr};
    for (std::size_t i = 2; i < graph.ops[0].inputs.size(); ++i) {
      inputs.push_back(executor->fill(graph.ops[0].inputs[i], 1, 0));
    }
    for (int t = 1; t <= 5; ++t) {
      const auto step = static_cast<float>(t);
      inputs[1] = executor->from_host(floats({3}, {step, -step / 2, 0.1F}).view());
      executor->run(0, 1, inputs);
    }
    return values_of(*executor, inputs[0]);
  }
  static Graph graph_of(const OptimizerOptions& options, int states) {
    Graph graph;
    graph.optimizer = options;
    Op op;
    op.kind = OpKind::kUpdate;
    op.name = "p.update";
    for (int i = 0; i < 2 + states; ++i) {
      Tensor tensor;
      const bool step_count = i == 4;
      if (!step_count) tensor.shape = {3};
      op.inputs.push_back(i);
      graph.tensors.push_back(tensor);
    }
    op.writes = {0};
    graph.ops.push_back(op);
    return graph;
  }
  static auto near(const std::array<float, 3>& end) {
    using testing::FloatNear;
    return testing::ElementsAre(FloatNear(end[0], 1e-6F), FloatNear(end[1], 1e-6F), FloatNear(end[2], 1e-6F));
  }

  static inline std::array<std::array<float, 3>, 4> pytorch_;
};

TEST_F(OptimizerStepTest, Sgd) { EXPECT_THAT(end({.learning_rate = 0.1}, 0), near(pytorch_[0])); }

TEST_F(OptimizerStepTest, SgdWithMomentumAndWeightDecay) {
  EXPECT_THAT(end({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}, 1), near(pytorch_[1]));
}

TEST_F(OptimizerStepTest, Adam) {
  OptimizerOptions options{OptimizerOptions::Kind::kAdam, 0.1, 0, 0.8, 0.95, 1e-6, 0.01};
  EXPECT_THAT(end(options, 3), near(pytorch_[2]));
}

TEST_F(OptimizerStepTest, AdamW) {
  OptimizerOptions options{OptimizerOptions::Kind::kAdamW, 0.1, 0, 0.8, 0.95, 1e-6, 0.01};
  EXPECT_THAT(end(options, 3), near(pytorch_[3]));
}

}  // namespace
}  // namespace motley
