#include "profiler/signature.h"

#include <gtest/gtest.h>

#include "tests/profiler/test_graph.h"

namespace motley {
namespace {

class SignatureTest : public testing::Test {
 protected:
  // Of the op called `name` in `graph`.
  static Signature of(const Graph& graph, const std::string& name) {
    const Signatures signatures = signatures_of(graph);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      if (graph.ops[i].name == name) return signatures.distinct[signatures.of_op[i]];
    }
    ADD_FAILURE() << name;
    return {};
  }
  static Op& op(Graph& graph, const std::string& name) {
    for (Op& op : graph.ops) {
      if (op.name == name) return op;
    }
    throw std::out_of_range(name);
  }

  const Graph mlp_ = make_mlp(3);
};

TEST_F(SignatureTest, SaysWhatTheCostDependsOn) {
  const Signature relu = of(mlp_, "layer1.relu");
  EXPECT_EQ(relu.text, "forward aten::relu.default([f32[B, 16]], self=$0) -> [f32[B, 16]] dx[0]");
  EXPECT_EQ(relu.dtype, "f32");
  EXPECT_EQ(relu.hash.size(), 32u);
}

TEST_F(SignatureTest, DeeperModelsHaveNoMoreOfThem) {
  // The first layer's mm lacks the input gradient; all others are alike.
  EXPECT_EQ(signatures_of(make_mlp(2)).distinct.size(), signatures_of(make_mlp(12)).distinct.size());
}

TEST_F(SignatureTest, EqualOpsAreEqual) {
  EXPECT_EQ(of(mlp_, "layer1.mm").hash, of(mlp_, "layer2.mm").hash);
  EXPECT_EQ(of(mlp_, "layer1.mm.dw").hash, of(mlp_, "layer2.mm.dw").hash);
  EXPECT_EQ(of(mlp_, "layer0.weight.update").hash, of(mlp_, "layer2.weight.update").hash);
}

TEST_F(SignatureTest, GradientsMatter) {
  EXPECT_NE(of(mlp_, "layer0.mm").hash, of(mlp_, "layer1.mm").hash) << "the first needs no input gradient";
  EXPECT_NE(of(mlp_, "layer1.mm.dx").hash, of(mlp_, "layer1.mm.dw").hash);
}

TEST_F(SignatureTest, ShapesDtypesAndArgumentsMatter) {
  const std::string base = of(mlp_, "layer1.relu").hash;
  EXPECT_NE(of(make_mlp(3, 32), "layer1.relu").hash, base);
  Graph half = mlp_;
  for (Tensor& tensor : half.tensors) tensor.dtype = DType::kBFloat16;
  EXPECT_NE(of(half, "layer1.relu").hash, base);
  EXPECT_EQ(of(half, "layer1.relu").dtype, "bf16");
  Graph other = mlp_;
  op(other, "layer1.relu").arguments.push_back({"slope", 0.5});
  EXPECT_NE(of(other, "layer1.relu").hash, base);
  EXPECT_EQ(of(other, "layer2.relu").hash, base);
}

TEST_F(SignatureTest, LayoutOfViewsMatters) {
  Graph viewed = mlp_;
  Op& add = op(viewed, "layer1.add");
  add.is_view = true;
  viewed.tensors[add.outputs[0]].alias_of = add.inputs[0];
  EXPECT_NE(of(viewed, "layer1.relu").hash, of(mlp_, "layer1.relu").hash);
}

TEST_F(SignatureTest, OptimizerMattersToUpdatesAlone) {
  Graph momentum = mlp_;
  momentum.optimizer.momentum = 0.9;
  EXPECT_NE(of(momentum, "layer0.bias.update").hash, of(mlp_, "layer0.bias.update").hash);
  EXPECT_EQ(of(momentum, "layer0.mm").hash, of(mlp_, "layer0.mm").hash);
}

TEST_F(SignatureTest, KnowsWhatTheBatchDoesNotTouch) {
  EXPECT_FALSE(of(mlp_, "layer0.weight.update").depends_on_batch);
  EXPECT_TRUE(of(mlp_, "layer0.mm.dw").depends_on_batch) << "through the forward op that it reads";
  EXPECT_TRUE(of(mlp_, "mean").depends_on_batch);
}

}  // namespace
}  // namespace motley
