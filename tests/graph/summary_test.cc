#include "graph/summary.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "graph/training_graph.h"
#include "tests/support/forward_graph.h"

namespace motley {
namespace {

using support::ForwardGraph;
using support::kB;

class SummaryTest : public testing::Test, protected ForwardGraph {
 protected:
  SummaryTest() {
    OptimizerOptions adam;
    adam.kind = OptimizerOptions::Kind::kAdam;
    TensorId h = linear("first", input("x", {kB, 10}), parameter("w1", {20, 10}), parameter("b1", {20}), {kB, 20});
    h = simple("relu", "aten::relu.default", {h}, {kB, 20});
    h = linear("second", h, parameter("w2", {5, 20}), kNone, {kB, 5});
    graph.loss = simple("loss", "aten::mean.default", {h}, {});
    summary_ = summarize(make_training_graph(graph, {adam, 2}), 8);
  }
  GraphSummary summary_;
};

TEST_F(SummaryTest, CountsParametersAndTheirState) {
  EXPECT_EQ(summary_.parameters, 20 * 10 + 20 + 5 * 20);
  EXPECT_EQ(summary_.weights, Bytes(320 * 4));
  EXPECT_EQ(summary_.gradients, Bytes(320 * 4));
  EXPECT_EQ(summary_.optimizer_states, Bytes(2 * 320 * 4 + 3 * 4));  // two moments, and a step per parameter
}

TEST_F(SummaryTest, CountsFlops) {
  // 2 * 8 * (200 + 100) in products, relu 8 * 20, mean 8 * 5.
  EXPECT_EQ(summary_.forward.value, 4800 + 160 + 40);
  // dw of both products and dx of the second; relu once, mean once.
  EXPECT_EQ(summary_.backward.value, 2 * 8 * (200 + 100 + 100) + 160 + 40);
}

TEST_F(SummaryTest, CountsWhatTheBackwardKeeps) {
  // x for the first product; relu's result for itself and for the second product.
  EXPECT_EQ(summary_.saved, Bytes(8 * (10 + 20) * 4));
}

TEST_F(SummaryTest, TextAndJsonShowTheGroups) {
  EXPECT_THAT(to_text(summary_),
              testing::AllOf(testing::HasSubstr("input             x f32 (B, 10)\n"), testing::HasSubstr("first")));
  const auto json = nlohmann::json::parse(to_json(summary_));
  EXPECT_EQ(json["parameters"], 320);
  EXPECT_EQ(json["inputs"].dump(), R"([{"dtype":"f32","name":"x","shape":["B","10"]}])");
  EXPECT_EQ(json["groups"].size(), summary_.groups.size());
}

}  // namespace
}  // namespace motley
