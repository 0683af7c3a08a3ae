#include "profiler/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace motley {
namespace {

// ids [B, 4] -> reshaped -> rows of a table of 10, and targets [B] -> classes of scores [B, 3].
class SyntheticTest : public testing::Test {
 protected:
  SyntheticTest() {
    const BatchExpr batch = BatchExpr::batch();
    ids_ = tensor("ids", {batch, 4}, TensorRole::kInput, DType::kInt64);
    const TensorId flat = tensor("flat", {BatchExpr::batch(4)}, TensorRole::kActivation, DType::kInt64);
    table_ = tensor("table", {10, 8}, TensorRole::kParameter);
    const TensorId rows = tensor("rows", {BatchExpr::batch(4), 8}, TensorRole::kActivation);
    scores_ = tensor("scores", {batch, 3}, TensorRole::kInput);
    targets_ = tensor("targets", {batch}, TensorRole::kInput, DType::kInt64);
    loss_ = tensor("loss", {}, TensorRole::kActivation);
    mask_ = tensor("mask", {batch}, TensorRole::kInput, DType::kBool);
    variance_ = tensor("variance", {8}, TensorRole::kBuffer);
    op("reshape", "aten::view.default", {{"self", ids_}}, flat);
    op("embed", "aten::embedding.default", {{"weight", table_}, {"indices", flat}}, rows);
    op("loss", "aten::cross_entropy_loss.default", {{"self", scores_}, {"target", targets_}}, loss_);
    graph_.finish();
  }

  TensorId tensor(const std::string& name, Shape shape, TensorRole role, DType dtype = DType::kFloat32) {
    Tensor made;
    made.name = name;
    made.shape = std::move(shape);
    made.role = role;
    made.dtype = dtype;
    graph_.tensors.push_back(made);
    return static_cast<TensorId>(graph_.tensors.size()) - 1;
  }
  void op(const std::string& name, const std::string& target,
          const std::vector<std::pair<std::string, TensorId>>& inputs, TensorId output) {
    Op made;
    made.name = name;
    made.target = target;
    for (const auto& [argument, input] : inputs) {
      made.arguments.push_back({argument, InputRef{static_cast<std::int32_t>(made.inputs.size())}});
      made.inputs.push_back(input);
    }
    made.outputs = {output};
    graph_.tensors[output].producer = static_cast<OpId>(graph_.ops.size());
    graph_.ops.push_back(made);
  }

  Graph graph_;
  TensorId ids_, table_, scores_, targets_, loss_, mask_, variance_;
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
