#include "graph/graph.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

TEST(Graph, BytesOfATensorFollowTheBatch) {
  const Tensor tensor{.name = "x", .dtype = DType::kBFloat16, .shape = {BatchExpr::batch(2), 5}};
  EXPECT_EQ(tensor.bytes(3).value, 2 * 3 * 5 * 2);
}

TEST(Graph, FinishListsEachConsumerOnce) {
  Graph graph;
  graph.tensors = {{.name = "x"}, {.name = "y", .producer = 0}};
  graph.ops = {{.name = "square", .target = "aten::mul.Tensor", .inputs = {0, 0}, .outputs = {1}}};
  graph.finish();
  EXPECT_EQ(graph.consumers, (std::vector<std::vector<OpId>>{{0}, {}}));
}

}  // namespace
}  // namespace motley
