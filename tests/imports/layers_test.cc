#include "imports/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/compiler.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops) names.push_back(op.name);
  return names;
}

const Tensor& tensor_named(const Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.tensors, name, &Tensor::name);
}

TEST(LayersTest, AChainBecomesATrainingGraph) {
  const Graph graph = graph_of_layers("model", {{"a", {}, Bytes(40), Bytes(8)}, {"b", {0}, Bytes(0), Bytes(10)}});
  EXPECT_THAT(op_names(graph), ElementsAre("a", "b", "loss", "loss.dx", "b.dx", "a.dw", "a.update"));
  ASSERT_EQ(graph.groups.size(), 2U);
  EXPECT_EQ(graph.groups[0].name, "a");
  EXPECT_EQ(tensor_named(graph, "a.weight").bytes(7), Bytes(40));
  EXPECT_EQ(tensor_named(graph, "a.dw").bytes(7), Bytes(40));
  EXPECT_EQ(tensor_named(graph, "a.output").bytes(7), Bytes(56));
  EXPECT_EQ(tensor_named(graph, "b.output").bytes(7), Bytes(7 * 12));  // whole float32
  EXPECT_EQ(std::ranges::count(graph.tensors, TensorRole::kOptimizerState, &Tensor::role), 2);
  EXPECT_EQ(layer_of(graph, 1), 1);
  EXPECT_EQ(layer_of(graph, 2), kNone);
}

// 0 feeds 1 and 2, which 3 joins: 0's gradient has two parts.
TEST(LayersTest, GradientsOfBranchesAreSummed) {
  const Layer parts[] = {{"in", {}, Bytes(4), Bytes(4)},
                         {"left", {0}, Bytes(4), Bytes(4)},
                         {"right", {0}, Bytes(4), Bytes(4)},
                         {"join", {1, 2}, Bytes(0), Bytes(4)}};
  const Graph graph = graph_of_layers("model", {std::begin(parts), std::end(parts)});
  const auto sum = std::ranges::find(graph.ops, OpKind::kGradientSum, &Op::kind);
  ASSERT_NE(sum, graph.ops.end());
  EXPECT_EQ(sum->inputs.size(), 2U);
  EXPECT_EQ(graph.tensors[sum->outputs[0]].gradient_of, graph.ops[0].outputs[0]);
}

TEST(LayersTest, NoGradientGoesWhereNothingIsTrained) {
  const Graph graph = graph_of_layers("model", {{"data", {}, Bytes(0), Bytes(4)}, {"a", {0}, Bytes(4), Bytes(4)}});
  EXPECT_THAT(op_names(graph), ElementsAre("data", "a", "loss", "loss.dx", "a.dw", "a.update"));
}

TEST(LayersTest, SaysWhichLayerStandsInTheWrongPlace) {
  const auto refused = [](std::vector<Layer> layers) {
    return support::error_of([&] { graph_of_layers("model", layers); }, ErrorKind::kInvalidInput);
  };
  EXPECT_THAT(refused({}), HasSubstr("model: there are no layers"));
  EXPECT_THAT(refused({{"a", {0}, Bytes(4), Bytes(4)}}), HasSubstr("layer a takes the output of one that does not"));
}

}  // namespace
}  // namespace motley
