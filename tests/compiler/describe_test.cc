#include "compiler/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compiler.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

using testing::HasSubstr;

// Two layers of width 4 at batch 8: an activation is 128 B, a layer's parameters 80 B.
class DescribeTest : public testing::Test {
 protected:
  Deployment deploy(const GroupDecision& first, const GroupDecision& second) const {
    Strategy strategy{"by hand", {first, second}};
    return std::get<Deployment>(compile(graph_, cluster_, support::FixedCosts(graph_, {1, 1}), strategy, 8));
  }
  DeploymentSummary summary(const GroupDecision& first, const GroupDecision& second) const {
    return summarize(deploy(first, second), graph_);
  }

  Graph graph_ = support::chain_graph();
  Cluster cluster_ = support::star_cluster(2, {BytesPerSecond(100)});
};

TEST_F(DescribeTest, CountsACut) {
  const DeploymentSummary cut = summary({{{0, 1}}}, {{{1, 1}}});
  EXPECT_EQ(cut.messages, 2);
  EXPECT_EQ(cut.activations, Bytes(128));
  EXPECT_EQ(cut.activation_gradients, Bytes(128));
  EXPECT_EQ(cut.devices[0].sent, Bytes(128));
  EXPECT_EQ(cut.devices[0].received, Bytes(128));
  EXPECT_EQ(cut.devices[0].ops, 2 + 2 + 2);  // linear and relu, relu.dx and linear.dw, two updates
}

TEST_F(DescribeTest, CountsGradients) {
  const DeploymentSummary both = summary({{{0, 1}, {1, 1}}, GradientMethod::kParameterServer}, {{{0, 1}, {1, 1}}});
  EXPECT_EQ(both.parameter_gradients, Bytes(80));
  EXPECT_EQ(both.parameters, Bytes(80));
  EXPECT_EQ(both.reduced_gradients, Bytes(80));
  EXPECT_EQ(both.collectives, 1);
  EXPECT_EQ(both.activations, Bytes(0));
  EXPECT_EQ(both.devices[1].reduced, Bytes(80));
}

TEST_F(DescribeTest, TellsPeople) {
  const std::string text = describe(deploy({{{0, 1}}}, {{{1, 1}}}), graph_, cluster_);
  EXPECT_THAT(text, HasSubstr("by hand, batch 8: 2 messages and 0 collectives per iteration"));
  EXPECT_THAT(text, HasSubstr("activations sent: 128 B"));
  EXPECT_THAT(text, HasSubstr("n0/0: 8 instructions (6 ops), sends 128 B, receives 128 B"));
}

}  // namespace
}  // namespace motley
