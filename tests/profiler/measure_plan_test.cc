#include "profiler/measure_plan.h"

#include <gmock/gmock.h>

#include "tests/profiler/test_graph.h"

namespace motley {
namespace {

using testing::ElementsAre;

class MeasurePlanTest : public testing::Test {
 protected:
  explicit MeasurePlanTest(int layers = 4)
      : graph_(make_mlp(layers)), signatures_(signatures_of(graph_)), plan_(graph_, signatures_) {}

  std::vector<std::string> names(const std::vector<bool>& chosen) const {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!chosen[i]) continue;
      for (const OpId op : plan_.steps()[i].ops) result.push_back(graph_.ops[op].name);
    }
    return result;
  }
  TensorId tensor(const std::string& name) const {
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].name == name) return static_cast<TensorId>(i);
    }
    return kNone;
  }
  // Only the step that holds the op called `name`.
  std::vector<bool> only(const std::string& name) const {
    std::vector<bool> result;
    for (const MeasureStep& step : plan_.steps()) {
      result.push_back(false);
      for (const OpId op : step.ops) result.back() = result.back() || graph_.ops[op].name == name;
    }
    return result;
  }

  Graph graph_;
  Signatures signatures_;
  MeasurePlan plan_;
};

TEST_F(MeasurePlanTest, RunsEqualOpsOnce) {
  // Of layers 1 to 3 only the first forward and the last (which comes first) backward ops.
  EXPECT_THAT(names(std::vector<bool>(plan_.steps().size(), true)),
              ElementsAre("layer0.mm", "layer0.add", "layer0.relu", "layer1.mm", "mean", "mean.dx", "layer3.relu.dx",
                          "layer3.add.dx", "layer3.add.dw", "layer3.mm.dx", "layer3.mm.dw", "layer3.weight.update",
                          "layer3.bias.update", "layer0.mm.dw"));
}

TEST_F(MeasurePlanTest, EqualOpsResultsStandIn) {
  EXPECT_EQ(plan_.stand_in(tensor("layer2.mm")), tensor("layer1.mm"));
  EXPECT_EQ(plan_.stand_in(tensor("layer3.relu")), tensor("layer0.relu"));
  EXPECT_EQ(plan_.stand_in(tensor("layer1.mm.dw1")), tensor("layer3.mm.dw1"));
  EXPECT_EQ(plan_.stand_in(tensor("layer2.weight")), tensor("layer2.weight"));
}

TEST_F(MeasurePlanTest, StepsReadWhatEarlierOnesMade) {
  std::vector<bool> made(graph_.tensors.size());
  for (const MeasureStep& step : plan_.steps()) {
    for (const TensorId id : plan_.reads(step)) EXPECT_TRUE(graph_.tensors[id].producer == kNone || made[id]);
    for (const OpId op : step.ops) {
      for (const TensorId id : graph_.ops[op].outputs) made[id] = true;
    }
  }
}

TEST_F(MeasurePlanTest, RunsOnlyWhatIsNeeded) {
  const std::vector<bool> none(plan_.steps().size());
  EXPECT_THAT(names(plan_.needed(only("layer1.mm"), none)),
              ElementsAre("layer0.mm", "layer0.add", "layer0.relu", "layer1.mm"));
  EXPECT_THAT(names(plan_.needed(only("layer1.mm"), only("layer0.add"))),
              ElementsAre("layer0.add", "layer0.relu", "layer1.mm"));
}

TEST_F(MeasurePlanTest, WhatMakesIntegersAlwaysRuns) {
  Graph graph = make_mlp(4);
  for (Tensor& made : graph.tensors) {
    if (made.name.ends_with(".relu")) made.dtype = DType::kInt64;
  }
  const Signatures signatures = signatures_of(graph);
  const MeasurePlan plan(graph, signatures);
  int relus = 0;
  for (const MeasureStep& step : plan.steps()) {
    relus += graph.ops[step.ops[0]].name.ends_with(".relu") ? 1 : 0;
  }
  EXPECT_EQ(relus, 4);
}

}  // namespace
}  // namespace motley
