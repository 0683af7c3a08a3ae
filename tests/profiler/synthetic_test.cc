#include "profiler/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/forward_graph.h"

namespace motley {
namespace {

// ids [B, 4] -> reshaped -> rows of a table of 10, and targets [B] -> classes of scores [B, 3].
class SyntheticTest : public testing::Test {
 protected:
  SyntheticTest() {
    const BatchExpr batch = BatchExpr::batch();
    ids_ = model_.input("ids", {batch, 4}, DType::kInt64);
    table_ = model_.parameter("table", {10, 8});
    scores_ = model_.input("scores", {batch, 3});
    targets_ = model_.input("targets", {batch}, DType::kInt64);
    mask_ = model_.input("mask", {batch}, DType::kBool);
    variance_ = model_.tensor("variance", {8}, DType::kFloat32, TensorRole::kBuffer);
    const TensorId flat = model_.simple("reshape", "aten::view.default", {ids_}, {BatchExpr::batch(4)}, DType::kInt64);
    model_.op("embed", "aten::embedding.default", {{"weight", InputRef{0}}, {"indices", InputRef{1}}}, {table_, flat},
              {BatchExpr::batch(4), 8});
    model_.op("loss", "aten::cross_entropy_loss.default", {{"self", InputRef{0}}, {"target", InputRef{1}}},
              {scores_, targets_}, {});
    graph_.finish();
  }

  support::ForwardGraph model_;
  Graph& graph_ = model_.graph;
  TensorId ids_, table_, scores_, targets_, mask_, variance_;
};

TEST_F(SyntheticTest, BoundsComeFromWhatIsIndexed) {
  EXPECT_EQ(index_bound(graph_, ids_, 2), 10);
  EXPECT_EQ(index_bound(graph_, targets_, 2), 3);
  EXPECT_EQ(index_bound(graph_, mask_, 2), 0);
}

TEST_F(SyntheticTest, IndicesAreWithinBounds) {
  HostTensor value = synthetic_value(graph_, targets_, 1000);
  const auto targets = elements<std::int64_t>(value);
  EXPECT_EQ(targets.size(), 1000u);
  EXPECT_EQ(*std::min_element(targets.begin(), targets.end()), 0);
  EXPECT_EQ(*std::max_element(targets.begin(), targets.end()), 2);
}

TEST_F(SyntheticTest, ValuesSuitTheirRole) {
  HostTensor mask = synthetic_value(graph_, mask_, 5);
  for (const std::uint8_t value : elements<std::uint8_t>(mask)) EXPECT_EQ(value, 1);
  HostTensor variance = synthetic_value(graph_, variance_, 5);
  for (const float value : elements<float>(variance)) EXPECT_GE(value, 0.5);
  HostTensor table = synthetic_value(graph_, table_, 5);
  for (const float value : elements<float>(table)) EXPECT_LT(std::abs(value), 0.05);
}

TEST_F(SyntheticTest, SixteenBitFloatsAreNormalNumbers) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    graph_.tensors[variance_].dtype = dtype;
    HostTensor variance = synthetic_value(graph_, variance_, 5);
    // [0.5, 1): in half precision 0x3800 to 0x3bff, in bfloat16 0x3f00 to 0x3f7f.
    const bool half = dtype == DType::kFloat16;
    for (const std::uint16_t bits : elements<std::uint16_t>(variance)) {
      EXPECT_GE(bits, half ? 0x3800 : 0x3f00);
      EXPECT_LE(bits, half ? 0x3bff : 0x3f7f);
    }
  }
}

}  // namespace
}  // namespace motley
