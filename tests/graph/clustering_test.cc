#include "graph/clustering.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/batch_analysis.h"
#include "graph/fingerprint.h"
#include "graph/serialize.h"
#include "graph/training_graph.h"
#include "tests/support/forward_graph.h"

namespace motley {
namespace {

using support::ForwardGraph;
using support::kB;

class ClusteringTest : public testing::Test, protected ForwardGraph {
 protected:
  // x -> linear -> relu, `layers` times, then the mean.
  void chain(int layers) {
    TensorId value = input("x", {kB, 8});
    for (int i = 0; i < layers; ++i) {
      const std::string name = "layers_" + std::to_string(i);
      value = linear(name, value, parameter(name + ".weight", {8, 8}), parameter(name + ".bias", {8}), {kB, 8});
      graph.ops.back().module = "layers." + std::to_string(i);
      value = simple(name + "_relu", "aten::relu.default", {value}, {kB, 8});
      graph.ops.back().module = "layers." + std::to_string(i);
    }
    graph.loss = simple("loss", "aten::mean.default", {value}, {});
  }
  void make(std::int32_t max_groups) { graph = make_training_graph(graph, {{}, max_groups}); }
  GroupId group_of(const std::string& name) const {
    for (const Op& op : graph.ops) {
      if (op.name == name) return op.group;
    }
    return kNone;
  }
};

TEST_F(ClusteringTest, BoundsTheNumberOfGroups) {
  chain(20);
  for (std::int32_t bound : {1, 7, 20}) {
    Graph clustered = make_training_graph(graph, {{}, bound});
    EXPECT_LE(clustered.groups.size(), static_cast<std::size_t>(bound));
    EXPECT_GE(clustered.groups.size(), static_cast<std::size_t>(bound + 1) / 2);
  }
}

TEST_F(ClusteringTest, LayersAreGroupsNamedAfterTheirModule) {
  chain(4);
  make(4);
  ASSERT_EQ(graph.groups.size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(graph.groups[i].name, "layers." + std::to_string(i));
    EXPECT_EQ(graph.groups[i].parameters.size(), 2U);
    EXPECT_EQ(group_of("layers_" + std::to_string(i) + "_relu"), i);
  }
}

TEST_F(ClusteringTest, BackwardOpsAndUpdatesFollow) {
  chain(4);
  make(4);
  EXPECT_EQ(group_of("layers_2.dx"), 2);
  EXPECT_EQ(group_of("layers_2.dw"), 2);
  EXPECT_EQ(group_of("layers_2.weight.update"), 2);
}

TEST_F(ClusteringTest, GroupsAreInTopologicalOrder) {
  chain(30);
  make(9);
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kForward) continue;
    for (TensorId in : op.inputs) {
      const OpId maker = graph.tensors[in].producer;
      if (maker != kNone) {
        EXPECT_LE(graph.ops[maker].group, op.group) << op.name;
      }
    }
  }
}

TEST_F(ClusteringTest, WhatCannotBeCutStaysTogether) {
  const TensorId x = input("x", {kB, 8});
  const TensorId h = linear("first", x, parameter("w1", {8, 8}), kNone, {kB, 8});
  const TensorId average =
      op("average", "aten::mean.dim", {{"self", InputRef{0}}, {"dim", std::vector<BatchExpr>{0}}}, {h}, {8});
  TensorId value = h;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "more" + std::to_string(i);
    value = linear(name, value, parameter(name + ".w", {8, 8}), kNone, {kB, 8});
  }
  const TensorId centred = simple("centred", "aten::sub.Tensor", {value, average}, {kB, 8});
  graph.loss = simple("loss", "aten::mean.default", {centred}, {});
  make(100);
  EXPECT_EQ(group_of("average"), group_of("centred"));  // joined by a mean over the batch
  EXPECT_LT(group_of("first"), group_of("average"));    // but nothing between them is
  EXPECT_LT(group_of("more2"), group_of("average"));
}

TEST_F(ClusteringTest, TiedWeightsBelongToTheirFirstUser) {
  const TensorId w = parameter("w", {8, 8});
  TensorId value = linear("first", input("x", {kB, 8}), w, kNone, {kB, 8});
  value = linear("second", value, parameter("v", {8, 8}), kNone, {kB, 8});
  graph.loss = simple("loss", "aten::mean.default", {linear("third", value, w, kNone, {kB, 8})}, {});
  make(100);
  EXPECT_LT(group_of("first"), group_of("third"));
  EXPECT_EQ(group_of("w.update"), group_of("first"));
  EXPECT_EQ(group_of("w.grad"), group_of("first"));
}

TEST_F(ClusteringTest, TakesTensOfThousandsOfOps) {
  chain(10000);
  make(200);
  EXPECT_LE(graph.groups.size(), 200U);
  EXPECT_GE(graph.groups.size(), 100U);
}

TEST_F(ClusteringTest, RefusesABoundBelowOne) {
  chain(2);
  EXPECT_THROW(make(0), Error);
}

TEST_F(ClusteringTest, TheFingerprintTellsGraphsApart) {
  chain(4);
  const Graph one = make_training_graph(graph, {{}, 4});
  const Graph again = make_training_graph(graph, {{}, 4});
  OptimizerOptions other;
  other.learning_rate = 0.5;
  EXPECT_EQ(one.fingerprint.size(), 64U);
  EXPECT_EQ(one.fingerprint, again.fingerprint);
  EXPECT_NE(one.fingerprint, make_training_graph(graph, {{}, 2}).fingerprint);
  EXPECT_NE(one.fingerprint, make_training_graph(graph, {other, 4}).fingerprint);
}

}  // namespace
}  // namespace motley
