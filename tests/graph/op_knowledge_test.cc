#include "graph/op_knowledge.h"

#include <gmock/gmock.h>

#include "graph/autodiff.h"
#include "graph/batch_analysis.h"
#include "graph/training_graph.h"
#include "tests/support/forward_graph.h"

namespace motley {
namespace {

using support::ForwardGraph;
using support::kB;
using testing::ElementsAre;
using testing::IsEmpty;

class OpKnowledgeTest : public testing::Test, protected ForwardGraph {
 protected:
  const Op& last() const { return graph.ops.back(); }
  double work(std::int64_t batch) const { return flops(graph, last(), batch).value; }
  std::vector<TensorId> saved(const std::vector<std::int32_t>& places) const {
    return saved_for_backward(graph, last(), places).tensors;
  }
  std::int64_t extra(std::int64_t batch) const { return saved_for_backward(graph, last(), {0}).extra(batch).value; }
};

TEST_F(OpKnowledgeTest, LinearIsTwoFlopsPerWeightAndRow) {
  linear("lin", input("x", {kB, 5, 3}), parameter("w", {4, 3}), kNone, {kB, 5, 4});
  EXPECT_EQ(work(2), 2 * (2 * 5) * 3 * 4);
}

TEST_F(OpKnowledgeTest, ConvolutionIsTwoFlopsPerWeightAndPixel) {
  // ResNet's first layer: 7x7, 3 to 64 channels, 112 x 112 outputs.
  op("conv", "aten::conv2d.default", {{"input", InputRef{0}}, {"weight", InputRef{1}}},
     {input("x", {kB, 3, 224, 224}), parameter("w", {64, 3, 7, 7})}, {kB, 64, 112, 112});
  EXPECT_EQ(work(1), 2.0 * 3 * 49 * 64 * 112 * 112);
}

TEST_F(OpKnowledgeTest, GroupedConvolutionCountsItsOwnChannels) {
  op("conv", "aten::conv2d.default", {{"input", InputRef{0}}, {"weight", InputRef{1}}},
     {input("x", {kB, 32, 10, 10}), parameter("w", {32, 1, 3, 3})}, {kB, 32, 10, 10});
  EXPECT_EQ(work(3), 3.0 * 2 * 32 * 9 * 100);
}

TEST_F(OpKnowledgeTest, BatchedProducts) {
  op("bmm", "aten::bmm.default", {{"self", InputRef{0}}, {"mat2", InputRef{1}}},
     {input("a", {kB, 2, 3}), input("b", {kB, 3, 4})}, {kB, 2, 4});
  EXPECT_EQ(work(7), 7 * 2 * 2 * 3 * 4);
  op("einsum", "aten::einsum.default",
     {{"equation", std::string("bik,bjk->bij")}, {"tensors", std::vector<InputRef>{{0}, {1}}}},
     {input("c", {kB, 2, 3}), input("d", {kB, 4, 3})}, {kB, 2, 4});
  EXPECT_EQ(work(7), 7 * 2 * 2 * 3 * 4);
}

TEST_F(OpKnowledgeTest, AttentionIsTwoProducts) {
  // scores 10 x 12 from 8 features, values of 8: 2 * 10 * 12 * 8 each, in 4 heads.
  const TensorId q = input("q", {kB, 4, 10, 8});
  const TensorId k = input("k", {kB, 4, 12, 8});
  op("attention", "aten::scaled_dot_product_attention.default",
     {{"query", InputRef{0}}, {"key", InputRef{1}}, {"value", InputRef{2}}}, {q, k, k}, {kB, 4, 10, 8});
  EXPECT_EQ(work(3), 3 * 4 * 2 * (2 * 10 * 12 * 8));
  EXPECT_EQ(extra(3), 3 * 4 * 10 * 4);  // log-sum-exp of each row
}

TEST_F(OpKnowledgeTest, GradientsOfAProductCostWhatItDoes) {
  const TensorId h = linear("first", input("x", {kB, 3}), parameter("v", {3, 3}), kNone, {kB, 3});
  const TensorId y = linear("second", h, parameter("w", {4, 3}), parameter("b", {4}), {kB, 4});
  graph.loss = simple("loss", "aten::mean.default", {y}, {});
  graph.finish();
  analyze_batch(graph);
  differentiate(graph, {});
  for (const Op& op : graph.ops) {
    if (op.name == "second.dx" || op.name == "second.dw") {
      EXPECT_EQ(flops(graph, op, 5).value, 2 * 5 * 3 * 4) << op.name;
    }
  }
}

TEST_F(OpKnowledgeTest, ViewsCostNothing) {
  view("flat", "aten::view.default", {}, input("x", {kB, 4}), {BatchExpr::batch(4)});
  EXPECT_EQ(work(8), 0);
  EXPECT_EQ(bytes_moved(graph, last(), 8), Bytes(0));
}

TEST_F(OpKnowledgeTest, ElementwiseOpsReadAndWrite) {
  simple("relu", "aten::relu.default", {input("x", {kB, 4})}, {kB, 4});
  EXPECT_EQ(bytes_moved(graph, last(), 8), Bytes(2 * 8 * 4 * 4));
}

TEST_F(OpKnowledgeTest, AnEmbeddingReadsOnlyItsRows) {
  op("embedding", "aten::embedding.default", {{"weight", InputRef{0}}, {"indices", InputRef{1}}},
     {parameter("table", {50257, 768}), input("ids", {kB, 10}, DType::kInt64)}, {kB, 10, 768});
  EXPECT_EQ(bytes_moved(graph, last(), 1), Bytes(2 * 10 * 768 * 4 + 10 * 8));
}

TEST_F(OpKnowledgeTest, AProductSavesAnOperandForTheOther) {
  const TensorId x = input("x", {kB, 3});
  const TensorId w = parameter("w", {4, 3});
  linear("lin", x, w, kNone, {kB, 4});
  EXPECT_THAT(saved({0}), ElementsAre(w));
  EXPECT_THAT(saved({1}), ElementsAre(x));
  EXPECT_THAT(saved({0, 1}), testing::UnorderedElementsAre(x, w));
}

TEST_F(OpKnowledgeTest, ReluSavesItsResultAndAdditionNothing) {
  const TensorId x = input("x", {kB, 3});
  const TensorId y = simple("relu", "aten::relu.default", {x}, {kB, 3});
  EXPECT_THAT(saved({0}), ElementsAre(y));
  simple("add", "aten::add.Tensor", {x, y}, {kB, 3});
  EXPECT_THAT(saved({0, 1}), IsEmpty());
}

TEST_F(OpKnowledgeTest, LayerNormSavesTwoNumbersPerRow) {
  op("norm", "aten::layer_norm.default", {{"input", InputRef{0}}, {"normalized_shape", std::vector<BatchExpr>{64}}},
     {input("x", {kB, 10, 64})}, {kB, 10, 64});
  EXPECT_EQ(extra(3), 3 * 10 * 2 * 4);
}

TEST_F(OpKnowledgeTest, MaxPoolingSavesIndices) {
  op("pool", "aten::max_pool2d.default", {{"self", InputRef{0}}}, {input("x", {kB, 2, 4, 4})}, {kB, 2, 2, 2});
  EXPECT_EQ(extra(3), 3 * 2 * 2 * 2 * 8);
}

TEST_F(OpKnowledgeTest, UnknownOpsSaveEverything) {
  const TensorId x = input("x", {kB, 3});
  const TensorId y = simple("odd", "custom::odd.default", {x}, {kB, 3});
  EXPECT_FALSE(facts_of("custom::odd.default").known);
  EXPECT_THAT(saved({0}), ElementsAre(x, y));
  EXPECT_EQ(work(2), 6);
}

TEST_F(OpKnowledgeTest, InPlaceNamesMeanTheirTwins) {
  EXPECT_EQ(functional_name("aten::relu_.default"), "relu");
  EXPECT_EQ(functional_name("aten::__and__.Tensor"), "__and__");
  EXPECT_TRUE(facts_of("aten::add_.Tensor").known);
  EXPECT_FALSE(facts_of("aten::argmax.default").differentiable);
}

}  // namespace
}  // namespace motley
