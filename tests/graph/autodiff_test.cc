#include "graph/autodiff.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "graph/batch_analysis.h"
#include "tests/support/error_of.h"
#include "tests/support/forward_graph.h"

namespace motley {
namespace {

using support::ForwardGraph;
using support::kB;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = BatchLayout::Kind;

class AutodiffTest : public testing::Test, protected ForwardGraph {
 protected:
  void train(TensorId loss, OptimizerOptions optimizer = {}) {
    graph.loss = loss;
    graph.finish();
    analyze_batch(graph);
    differentiate(graph, optimizer);
  }
  TensorId mean(TensorId of) { return simple("loss", "aten::mean.default", {of}, {}); }
  const Op* find(const std::string& name) {
    for (const Op& op : graph.ops) {
      if (op.name == name) return &op;
    }
    return nullptr;
  }
  std::vector<std::string> names(const std::vector<TensorId>& ids) {
    std::vector<std::string> result;
    result.reserve(ids.size());
    for (TensorId id : ids) result.push_back(graph.tensors[id].name);
    return result;
  }
};

TEST_F(AutodiffTest, GradientsOfInputsAndWeightsAreOpsApart) {
  const TensorId x = input("x", {kB, 2});
  const TensorId h = linear("first", x, parameter("w1", {3, 2}), parameter("b1", {3}), {kB, 3});
  train(mean(linear("second", h, parameter("w2", {4, 3}), kNone, {kB, 4})));
  EXPECT_EQ(find("first.dx"), nullptr);  // data needs no gradient
  EXPECT_THAT(find("first.dw")->gradient_inputs, ElementsAre(1, 2));
  EXPECT_THAT(find("second.dx")->gradient_inputs, ElementsAre(0));
  EXPECT_THAT(names(find("second.dw")->inputs), ElementsAre("loss.d0", "first", "w2"));
  EXPECT_THAT(names(find("loss.dx")->inputs), ElementsAre("loss.seed"));
  EXPECT_EQ(graph.tensors[find("second.dx")->outputs[0]].layout, (BatchLayout{Kind::kSplit, 0, 1}));
  EXPECT_EQ(graph.tensors[find("second.dw")->outputs[0]].layout.kind, Kind::kPartialSum);
}

TEST_F(AutodiffTest, TiedWeightsSumTheirGradients) {
  const TensorId w = parameter("w", {2, 2});
  const TensorId h = linear("first", input("x", {kB, 2}), w, kNone, {kB, 2});
  train(mean(linear("second", h, w, kNone, {kB, 2})));
  EXPECT_EQ(find("w.grad")->kind, OpKind::kGradientSum);
  EXPECT_THAT(names(find("w.grad")->inputs), ElementsAre("second.d1", "first.d1"));
  EXPECT_THAT(names(find("w.update")->inputs), ElementsAre("w", "w.grad"));
}

TEST_F(AutodiffTest, ResidualsSumTheirGradients) {
  const TensorId h = linear("lin", input("x", {kB, 2}), parameter("w", {2, 2}), kNone, {kB, 2});
  const TensorId r = simple("relu", "aten::relu.default", {h}, {kB, 2});
  train(mean(simple("add", "aten::add.Tensor", {h, r}, {kB, 2})));
  EXPECT_THAT(names(find("lin.grad")->inputs), ElementsAre("add.d0", "relu.d0"));
  EXPECT_TRUE(find("add.dx")->is_view);  // both gradients are the one that came in
  EXPECT_THAT(names(find("relu.dx")->inputs), ElementsAre("add.d1", "relu"));
}

TEST_F(AutodiffTest, ATensorThatStandsTwiceHasAGradientForEachPlace) {
  const TensorId h = linear("lin", input("x", {kB, 2}), parameter("w", {2, 2}), kNone, {kB, 2});
  train(mean(simple("square", "aten::mul.Tensor", {h, h}, {kB, 2})));
  EXPECT_THAT(find("square.dx")->gradient_inputs, ElementsAre(0, 1));
  EXPECT_THAT(names(find("lin.grad")->inputs), ElementsAre("square.d0", "square.d1"));
}

TEST_F(AutodiffTest, GradientsOfViewsAreViews) {
  const TensorId h = linear("lin", input("x", {kB, 2}), parameter("w", {2, 2}), kNone, {kB, 2});
  train(mean(view("turned", "aten::t.default", {}, h, {2, kB})));
  EXPECT_TRUE(find("turned.dx")->is_view);
  EXPECT_EQ(names({graph.tensors[find("turned.dx")->outputs[0]].alias_of})[0], "loss.d0");
}

TEST_F(AutodiffTest, AdamHasTwoMomentsAndAStep) {
  OptimizerOptions adam;
  adam.kind = OptimizerOptions::Kind::kAdam;
  train(mean(linear("lin", input("x", {kB, 2}), parameter("w", {2, 2}), kNone, {kB, 2})), adam);
  const Op& update = *find("w.update");
  EXPECT_EQ(update.target, "adam");
  EXPECT_THAT(names(update.inputs),
              ElementsAre("w", "lin.d1", "optimizer.w.exp_avg", "optimizer.w.exp_avg_sq", "optimizer.w.step"));
  EXPECT_THAT(names(update.writes),
              ElementsAre("w", "optimizer.w.exp_avg", "optimizer.w.exp_avg_sq", "optimizer.w.step"));
  EXPECT_EQ(graph.tensors[update.inputs[2]].shape, (Shape{2, 2}));
  EXPECT_EQ(graph.tensors[update.inputs[4]].shape, Shape{});
}

TEST_F(AutodiffTest, FrozenAndUnusedParametersAreLeftAlone) {
  const TensorId frozen = parameter("frozen", {2, 2});
  graph.tensors[frozen].requires_gradient = false;
  parameter("unused", {2});
  const TensorId h = linear("first", input("x", {kB, 2}), frozen, kNone, {kB, 2});
  train(mean(linear("second", h, parameter("w", {2, 2}), kNone, {kB, 2})));
  EXPECT_EQ(find("first.dw"), nullptr);
  EXPECT_EQ(find("second.dx"), nullptr);
  EXPECT_EQ(find("frozen.update"), nullptr);
  EXPECT_EQ(find("unused.update"), nullptr);
  EXPECT_NE(find("w.update"), nullptr);
}

TEST_F(AutodiffTest, ALossWithoutGradientNamesWhereItStops) {
  const TensorId h = linear("lin", input("x", {kB, 2}), parameter("w", {2, 2}), kNone, {kB, 2});
  const TensorId rounded = simple("round_1", "aten::round.default", {h}, {kB, 2});
  graph.ops.back().source = "model.py:42 in forward";
  const std::string message = support::error_of([&] { train(mean(rounded)); }, ErrorKind::kUnsupported);
  EXPECT_THAT(message, HasSubstr("round_1 (aten::round.default), model.py:42 in forward"));
}

}  // namespace
}  // namespace motley
