#include "runtime/executor.h"

#include <gmock/gmock.h>

#include <array>

#include "base/error.h"
#include "runtime/dispatch_check.h"
#include "tests/runtime/one_op.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const BatchExpr kBatch = BatchExpr::batch();

class ExecutorTest : public testing::Test {
 protected:
  void open(const OneOp& op) { executor_ = Executor::open("cpu", op.graph); }
  TensorHandle put(const HostTensor& tensor) { return executor_->from_host(tensor.view()); }
  std::vector<TensorHandle> run(OpId op, std::int64_t batch, std::vector<TensorHandle> inputs) {
    return executor_->run(op, batch, std::move(inputs));
  }
  std::vector<float> values(const TensorHandle& tensor) { return values_of(*executor_, tensor); }

  std::unique_ptr<Executor> executor_;
};

OneOp linear() {
  return OneOp("aten::linear.default", {{"input", InputRef{0}}, {"weight", InputRef{1}}, {"bias", InputRef{2}}},
               {{{kBatch, 2}}, {{2, 2}, TensorRole::kParameter}, {{2}, TensorRole::kParameter}}, {{kBatch, 2}});
}
OneOp relu() { return OneOp("aten::relu.default", {{"self", InputRef{0}}}, {{{kBatch, 1024}}}, {{kBatch, 1024}}); }
OneOp layer_norm() {
  return OneOp("aten::layer_norm.default",
               {{"input", InputRef{0}},
                {"normalized_shape", std::vector<BatchExpr>{64}},
                {"weight", InputRef{1}},
                {"bias", InputRef{2}}},
               {{{kBatch, 64}}, {{64}, TensorRole::kParameter}, {{64}, TensorRole::kParameter}}, {{kBatch, 64}});
}

TEST_F(ExecutorTest, GradientsOfInputsAndWeightsAreComputedApart) {
  const OneOp op = linear();
  open(op);
  // y = x W^T + b with x = (1, 2), W = ((1, 2), (3, 4)), b = (10, 20): y = (5 + 10, 11 + 20).
  const auto y =
      run(op.forward, 1, {put(floats({1, 2}, {1, 2})), put(floats({2, 2}, {1, 2, 3, 4})), put(floats({2}, {10, 20}))});
  EXPECT_THAT(values(y[0]), ElementsAre(15, 31));
  const TensorHandle seed = put(floats({1, 2}, {1, 10}));
  const auto dw = run(op.dw, 1, {seed});
  EXPECT_THAT(values(dw[0]), ElementsAre(1, 2, 10, 20));               // dW = dy^T x
  EXPECT_THAT(values(dw[1]), ElementsAre(1, 10));                      // db = dy
  EXPECT_THAT(values(run(op.dx, 1, {seed})[0]), ElementsAre(31, 42));  // dx = dy W
}

TEST_F(ExecutorTest, ATensorThatStandsTwiceHasAGradientForEachPlace) {
  OneOp op("aten::mul.Tensor", {{"self", InputRef{0}}, {"other", InputRef{1}}}, {{{kBatch}}, {{kBatch}}}, {{kBatch}});
  op.graph.ops[0].inputs[1] = op.graph.ops[0].inputs[0];
  open(op);
  const TensorHandle x = put(floats({2}, {3, 5}));
  run(op.forward, 2, {x, x});
  const auto dx = run(op.dx, 2, {put(floats({2}, {1, 1}))});
  EXPECT_THAT(values(dx[0]), ElementsAre(3, 5));
  EXPECT_THAT(values(dx[1]), ElementsAre(3, 5));
}

TEST_F(ExecutorTest, TheGradientOfABroadcastInputIsReducedToItsShape) {
  const OneOp op("aten::add.Tensor", {{"self", InputRef{0}}, {"other", InputRef{1}}},
                 {{{kBatch, 2}}, {{2}, TensorRole::kParameter}}, {{kBatch, 2}});
  open(op);
  run(op.forward, 2, {put(floats({2, 2}, {0, 0, 0, 0})), put(floats({2}, {1, 2}))});
  const TensorHandle seed = put(floats({2, 2}, {1, 2, 3, 4}));
  EXPECT_THAT(values(run(op.dx, 2, {seed})[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(run(op.dw, 2, {seed})[0]), ElementsAre(4, 6));  // summed over the batch
}

TEST_F(ExecutorTest, AGradientToBeReducedHasStorageOfItsOwn) {
  OneOp op("aten::add.Tensor", {{"self", InputRef{0}}, {"other", InputRef{1}}}, {{{2}}, {{2}, TensorRole::kParameter}},
           {{2}});
  op.graph.tensors[op.graph.ops[op.dw].outputs[0]].layout = {BatchLayout::Kind::kPartialSum};
  open(op);
  run(op.forward, 1, {put(floats({2}, {0, 0})), put(floats({2}, {1, 2}))});
  const TensorHandle seed = put(floats({2}, {1, 2}));
  EXPECT_EQ(data_pointer(run(op.dx, 1, {seed})[0]), data_pointer(seed));  // autograd passes it on
  run(op.forward, 1, {put(floats({2}, {0, 0})), put(floats({2}, {1, 2}))});
  EXPECT_NE(data_pointer(run(op.dw, 1, {seed})[0]), data_pointer(seed));
}

TEST_F(ExecutorTest, AViewSharesItsInputsStorage) {
  const OneOp op("aten::view.default", {{"self", InputRef{0}}, {"size", std::vector<BatchExpr>{2, kBatch}}},
                 {{{kBatch, 2}}}, {{2, kBatch}});
  open(op);
  const TensorHandle x = put(floats({3, 2}, {1, 2, 3, 4, 5, 6}));
  const auto y = run(op.forward, 3, {x});
  EXPECT_EQ(data_pointer(y[0]), data_pointer(x));
  EXPECT_THAT(sizes_of(y[0]), ElementsAre(2, 3));
  EXPECT_THAT(sizes_of(run(op.dx, 3, {y[0]})[0]), ElementsAre(3, 2));
}

TEST_F(ExecutorTest, AnOpThatReturnsItsInputPassesTheGradientOn) {
  const OneOp op("aten::contiguous.default", {{"self", InputRef{0}}}, {{{kBatch}}}, {{kBatch}});
  open(op);
  const auto y = run(op.forward, 2, {put(floats({2}, {1, 2}))});
  EXPECT_THAT(values(y[0]), ElementsAre(1, 2));
  EXPECT_THAT(values(run(op.dx, 2, {put(floats({2}, {7, 8}))})[0]), ElementsAre(7, 8));
}

TEST_F(ExecutorTest, TheGradientThatNothingReachesIsZero) {
  const OneOp op("aten::split.Tensor", {{"self", InputRef{0}}, {"split_size", BatchExpr(1)}, {"dim", BatchExpr(1)}},
                 {{{kBatch, 2}}}, {{kBatch, 1}, {kBatch, 1}});
  open(op);
  const auto y = run(op.forward, 1, {put(floats({1, 2}, {1, 2}))});
  EXPECT_THAT(values(y[1]), ElementsAre(2));
  EXPECT_THAT(values(run(op.dx, 1, {nullptr})[0]), ElementsAre(0, 0));
}

TEST_F(ExecutorTest, ListsOfTensorsAreInputs) {
  const OneOp op("aten::cat.default", {{"tensors", std::vector<InputRef>{{0}, {1}}}, {"dim", BatchExpr(1)}},
                 {{{kBatch, 1}}, {{kBatch, 2}}}, {{kBatch, 3}});
  open(op);
  const auto y = run(op.forward, 1, {put(floats({1, 1}, {1})), put(floats({1, 2}, {2, 3}))});
  EXPECT_THAT(values(y[0]), ElementsAre(1, 2, 3));
  const auto dx = run(op.dx, 1, {put(floats({1, 3}, {4, 5, 6}))});
  EXPECT_THAT(values(dx[0]), ElementsAre(4));
  EXPECT_THAT(values(dx[1]), ElementsAre(5, 6));
}

TEST_F(ExecutorTest, ANumberStandsForATensor) {
  const OneOp op("aten::add.Tensor", {{"self", InputRef{0}}, {"other", 0.5}}, {{{kBatch}}}, {{kBatch}});
  open(op);
  EXPECT_THAT(values(run(op.forward, 1, {put(floats({1}, {1}))})[0]), ElementsAre(1.5));
}

TEST_F(ExecutorTest, MicroBatchesKeepContextsOfTheirOwn) {
  const OneOp op("aten::sin.default", {{"self", InputRef{0}}}, {{{kBatch}}}, {{kBatch}});
  open(op);
  executor_->run(op.forward, 1, {put(floats({1}, {0}))}, {.micro_batch = 0});
  executor_->run(op.forward, 1, {put(floats({1}, {3.14159265F}))}, {.micro_batch = 1});
  const TensorHandle seed = put(floats({1}, {1}));
  EXPECT_FLOAT_EQ(values(executor_->run(op.dx, 1, {seed}, {.micro_batch = 0})[0])[0], 1);   // cos 0
  EXPECT_FLOAT_EQ(values(executor_->run(op.dx, 1, {seed}, {.micro_batch = 1})[0])[0], -1);  // cos pi
}

TEST_F(ExecutorTest, AContextLivesUntilTheLastBackwardOp) {
  const OneOp op = relu();  // keeps its output
  open(op);
  const TensorHandle x = put(make_host_tensor(DType::kFloat32, {4, 1024}));
  const TensorHandle seed = put(make_host_tensor(DType::kFloat32, {4, 1024}));
  const Bytes before = executor_->memory().allocated;
  run(op.forward, 4, {x});
  EXPECT_EQ(executor_->memory().allocated, before + Bytes(4 * 1024 * 4));
  run(op.dx, 4, {seed});
  EXPECT_EQ(executor_->memory().allocated, before);
}

TEST_F(ExecutorTest, AnInputThatTheBackwardDoesNotNeedIsNotKept) {
  const OneOp op = relu();
  open(op);
  TensorHandle x = put(make_host_tensor(DType::kFloat32, {4, 1024}));
  const auto y = run(op.forward, 4, {x});
  const Bytes before = executor_->memory().allocated;
  x.reset();
  EXPECT_EQ(executor_->memory().allocated, before - Bytes(4 * 1024 * 4));
}

// What backward ops bring is not held meanwhile, be it an input or an output; it may come in another layout.
TEST_F(ExecutorTest, WhatTheBackwardBringsIsNotKept) {
  OneOp op = relu();
  op.graph.ops[op.dx].inputs.push_back(op.graph.ops[op.forward].outputs[0]);
  open(op);
  const Bytes before = executor_->memory().allocated;
  const std::int32_t output[] = {1};
  auto y = executor_->run(op.forward, 2, {put(floats({2, 1024}, std::vector<float>(2048, 3)))}, {.brought = output});
  y.clear();
  EXPECT_EQ(executor_->memory().allocated, before);
  const TensorHandle seed = put(floats({2, 1024}, std::vector<float>(2048, 5)));
  std::vector<float> mask(2048, 1);
  mask[7] = 0;
  const TensorHandle back = put(floats({2, 1024}, mask));
  std::vector<float> expected(2048, 5);
  expected[7] = 0;
  EXPECT_EQ(values(run(op.dx, 2, {seed, back})[0]), expected);

  OneOp product = linear();
  const TensorId x = product.graph.ops[product.forward].inputs[0], w = product.graph.ops[product.forward].inputs[1];
  product.graph.ops[product.dw].inputs.push_back(x);
  product.graph.ops[product.dx].inputs.push_back(w);
  open(product);
  const std::int32_t both[] = {0, 1};
  executor_->run(product.forward, 2,
                 {put(floats({2, 2}, {0, 0, 0, 0})), put(floats({2, 2}, {0, 0, 0, 0})), put(floats({2}, {10, 20}))},
                 {.brought = both});
  const TensorHandle dy = put(floats({2, 2}, {1, 10, 0, 0}));
  EXPECT_THAT(values(run(product.dx, 2, {dy, put(floats({2, 2}, {1, 2, 3, 4}))})[0]), ElementsAre(31, 42, 0, 0));
  // (1, 2) and (3, 4) as columns of the first four rows of a tensor that is wider.
  const BatchLayout columns{BatchLayout::Kind::kSplit, 1};
  const TensorHandle strided = executor_->slice(put(floats({2, 3}, {1, 2, 9, 3, 4, 9})), columns, 0, 2, 3);
  EXPECT_THAT(values(run(product.dw, 2, {dy, strided})[0]), ElementsAre(1, 2, 10, 20));
}

TEST_F(ExecutorTest, LayerNormKeepsMeanAndDeviationOfEachRow) {
  const OneOp op = layer_norm();
  open(op);
  executor_->measure_op_memory(true);
  const auto y = run(op.forward, 32,
                     {put(make_host_tensor(DType::kFloat32, {32, 64})), put(make_host_tensor(DType::kFloat32, {64})),
                      put(make_host_tensor(DType::kFloat32, {64}))});
  EXPECT_EQ(executor_->last_memory().outputs, Bytes(32 * 64 * 4));
  EXPECT_EQ(executor_->last_memory().kept, Bytes(32 * 2 * 4));
}

TEST_F(ExecutorTest, NormalizationsGiveBothGradientsInEitherOrder) {
  const OneOp op = layer_norm();
  open(op);
  std::vector<float> ramp(64);
  for (int i = 0; i < 64; ++i) ramp[i] = static_cast<float>(i);
  const std::vector<TensorHandle> inputs = {put(floats({1, 64}, ramp)), put(floats({64}, std::vector<float>(64, 1))),
                                            put(floats({64}, std::vector<float>(64, 0)))};
  const TensorHandle seed = put(floats({1, 64}, ramp));
  run(op.forward, 1, inputs);
  const auto dx = values(run(op.dx, 1, {seed})[0]);
  EXPECT_THAT(values(run(op.dw, 1, {seed})[1]), testing::ElementsAreArray(ramp));  // db = dy
  run(op.forward, 1, inputs);
  run(op.dw, 1, {seed});
  EXPECT_THAT(values(run(op.dx, 1, {seed})[0]), testing::ElementsAreArray(dx));
}

TEST_F(ExecutorTest, AKeptContextGivesTheSameGradientAgain) {
  const OneOp op = layer_norm();
  open(op);
  run(op.forward, 1,
      {put(make_host_tensor(DType::kFloat32, {1, 64})), put(floats({64}, std::vector<float>(64, 1))),
       put(make_host_tensor(DType::kFloat32, {64}))});
  const TensorHandle seed = put(floats({1, 64}, std::vector<float>(64, 2)));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(sizes_of(executor_->run(op.dx, 1, {seed}, {.keep_context = true})[0]), ElementsAre(1, 64));
  }
  EXPECT_EQ(values(run(op.dw, 1, {seed})[1])[0], 2);
}

TEST_F(ExecutorTest, DropoutRepeatsWithItsSeed) {
  const OneOp op("aten::dropout.default", {{"input", InputRef{0}}, {"p", 0.5}, {"train", true}}, {{{kBatch, 1024}}},
                 {{kBatch, 1024}});
  const HostTensor ones = floats({1, 1024}, std::vector<float>(1024, 1));
  std::vector<std::vector<float>> drawn;
  for (std::uint64_t seed : {1, 1, 2}) {
    executor_ = Executor::open("cpu", op.graph, {.seed = seed});
    drawn.push_back(values(run(op.forward, 1, {put(ones)})[0]));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_NE(drawn[0], drawn[2]);
}

TEST_F(ExecutorTest, ASumWritesOverAPartThatIsHandedOver) {
  open(relu());
  const TensorHandle a = put(floats({2}, {1, 2}));
  TensorHandle b = put(floats({2}, {10, 20}));
  const std::byte* storage = data_pointer(b);
  std::vector<TensorHandle> parts = {a, std::move(b)};
  const TensorHandle sum = executor_->sum(std::move(parts));
  EXPECT_EQ(data_pointer(sum), storage);
  EXPECT_THAT(values(sum), ElementsAre(11, 22));
  EXPECT_THAT(values(a), ElementsAre(1, 2));
}

TEST_F(ExecutorTest, ASumOfHeldPartsLeavesThemAlone) {
  open(relu());
  const TensorHandle a = put(floats({1}, {1}));
  const TensorHandle b = put(floats({1}, {2}));
  EXPECT_THAT(values(executor_->sum({a, b, b})), ElementsAre(5));
  EXPECT_THAT(values(a), ElementsAre(1));
  EXPECT_THAT(values(b), ElementsAre(2));
}

TEST_F(ExecutorTest, ScaleAndFill) {
  const OneOp op = relu();
  open(op);
  const TensorHandle filled = executor_->fill(op.graph.ops[0].inputs[0], 1, 0.5);
  const TensorHandle scaled = executor_->scale(filled, 4);
  EXPECT_EQ(values(scaled)[1023], 2);
  EXPECT_EQ(values(filled)[1023], 0.5);
}

TEST_F(ExecutorTest, PartsOfABufferShareItsStorage) {
  open(linear());
  const TensorHandle buffer = executor_->flat(DType::kFloat32, 5);
  const std::array<std::int64_t, 2> sizes{1, 3};
  const TensorHandle part = executor_->view(buffer, 2, sizes);
  EXPECT_EQ(sizes_of(part), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(data_pointer(part), data_pointer(buffer) + 2 * sizeof(float));
}

TEST_F(ExecutorTest, AFailureNamesTheOpItsLineAndTheShapes) {
  const OneOp op = linear();
  open(op);
  const TensorHandle wrong = put(make_host_tensor(DType::kFloat32, {1, 3}));
  const std::string message = support::error_of(
      [&] {
        run(op.forward, 1, {wrong, put(make_host_tensor(DType::kFloat32, {2, 2})), nullptr});
      },
      ErrorKind::kInvalidInput);
  EXPECT_THAT(message, testing::AllOf(HasSubstr("'op' (model.py:7 in forward)"), HasSubstr("[1, 3]")));
}

TEST_F(ExecutorTest, ADeviceThatIsNotThereIsRefused) {
  const OneOp op = relu();
  EXPECT_THROW(Executor::open("cuda:77", op.graph), Error);
  EXPECT_THROW(Executor::open("gpu", op.graph), Error);
}

}  // namespace
}  // namespace motley
