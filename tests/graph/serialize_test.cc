#include "graph/serialize.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/training_graph.h"
#include "proto/graph.pb.h"
#include "tests/graph/graph_equality.h"
#include "tests/support/forward_graph.h"

namespace motley {
namespace {

using support::ForwardGraph;
using support::kB;

class SerializeTest : public testing::Test, protected ForwardGraph {
 protected:
  Graph training_graph() {
    const TensorId h = linear("lin", input("x", {kB, 2}), parameter("w", {2, 2}), parameter("b", {2}), {kB, 2});
    graph.loss = simple("loss", "aten::mean.default", {h}, {});
    graph.max_batch = 64;
    OptimizerOptions adam;
    adam.kind = OptimizerOptions::Kind::kAdam;
    return make_training_graph(graph, {adam, 10});
  }
};

TEST_F(SerializeTest, ComesBackFieldByField) {
  const Graph graph = training_graph();
  expect_equal(deserialize_graph(serialize(graph), "test"), graph);
}

TEST_F(SerializeTest, KeepsEveryKindOfArgument) {
  Graph graph = training_graph();
  graph.ops[0].arguments = {{"none", std::monostate()},
                            {"input", InputRef{1}},
                            {"inputs", std::vector<InputRef>{{0}, {kNone}}},
                            {"no_inputs", std::vector<InputRef>()},
                            {"size", BatchExpr::batch(3) + BatchExpr(2)},
                            {"zero", BatchExpr()},
                            {"sizes", std::vector<BatchExpr>{kB, 4}},
                            {"no_sizes", std::vector<BatchExpr>()},
                            {"real", 1e-5},
                            {"reals", std::vector<double>{0.5, -1}},
                            {"flag", false},
                            {"flags", std::vector<bool>{true, false}},
                            {"text", std::string("none")},
                            {"dtype", DType::kBFloat16},
                            {"format", MemoryFormat::kChannelsLast},
                            {"device", DeviceArgument()},
                            {"layout", LayoutArgument()}};
  expect_equal(deserialize_graph(serialize(graph), "test"), graph);
}

TEST_F(SerializeTest, RefusesAnotherVersion) {
  proto::Graph message = to_proto(training_graph());
  message.set_format_version(99);
  EXPECT_THROW(graph_from_proto(message), Error);
}

TEST_F(SerializeTest, RefusesBrokenReferences) {
  proto::Graph message = to_proto(training_graph());
  message.mutable_ops(0)->set_inputs(0, 1000);
  EXPECT_THROW(graph_from_proto(message), Error);
}

TEST_F(SerializeTest, RefusesForeignBytes) { EXPECT_THROW(deserialize_graph("no graph at all", "plan.bin"), Error); }

}  // namespace
}  // namespace motley
