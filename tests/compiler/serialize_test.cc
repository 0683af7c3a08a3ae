#include "compiler/serialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/compiler.h"
#include "proto/deployment.pb.h"
#include "tests/support/chain_graph.h"
#include "tests/support/error_of.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

using testing::HasSubstr;

class SerializeTest : public testing::Test {
 protected:
  SerializeTest() {
    strategy_.name = "by hand";
    strategy_.groups = {{{{0, 3}, {1, 1}}, GradientMethod::kParameterServer},
                        {{{0, 0.1}, {2, 0.7}}, GradientMethod::kAllReduce}};
    strategy_.bucket = Bytes(100);
    strategy_.groups[1].stage = 1;
    strategy_.micro_batches = 3;
    strategy_.schedule = "gpipe";
    const Graph graph = support::chain_graph({.momentum = 0.9});
    const Cluster cluster = support::star_cluster(3, {BytesPerSecond(100)});
    deployment_ = std::get<Deployment>(compile(graph, cluster, support::FixedCosts(graph, {1, 1, 1}), strategy_, 8));
  }

  static std::string refusal(const std::string& bytes) {
    return support::error_of([&] { deserialize_deployment(bytes, "big/0"); }, ErrorKind::kInvalidInput);
  }

  Strategy strategy_;
  Deployment deployment_;
};

TEST_F(SerializeTest, DeploymentComesBackTheSame) {
  const std::string bytes = serialize(deployment_);
  const Deployment back = deserialize_deployment(bytes, "test");
  EXPECT_NO_THROW(check(back));
  EXPECT_EQ(serialize(back), bytes);
  ASSERT_EQ(back.programs.size(), 3U);
  for (std::size_t p = 0; p < 3; ++p) {
    ASSERT_EQ(back.programs[p].instructions.size(), deployment_.programs[p].instructions.size());
    ASSERT_EQ(back.programs[p].losses.size(), deployment_.programs[p].losses.size());
    for (std::size_t i = 0; i < back.programs[p].losses.size(); ++i) {
      EXPECT_EQ(back.programs[p].losses[i].value, deployment_.programs[p].losses[i].value);
      EXPECT_EQ(back.programs[p].losses[i].weight, deployment_.programs[p].losses[i].weight);
    }
    for (std::size_t i = 0; i < back.programs[p].instructions.size(); ++i) {
      const Instruction& left = back.programs[p].instructions[i];
      const Instruction& right = deployment_.programs[p].instructions[i];
      EXPECT_EQ(left.kind, right.kind);
      EXPECT_EQ(left.op, right.op);
      EXPECT_EQ(left.batch, right.batch);
      EXPECT_EQ(left.micro_batch, right.micro_batch);
      EXPECT_EQ(left.inputs, right.inputs);
      EXPECT_EQ(left.outputs, right.outputs);
      EXPECT_EQ(left.releases, right.releases);
      EXPECT_EQ(left.peer, right.peer);
      EXPECT_EQ(left.tag, right.tag);
      EXPECT_EQ(left.collective, right.collective);
      EXPECT_EQ(left.scale, right.scale);
    }
  }
}

TEST_F(SerializeTest, StrategyComesBackTheSame) {
  EXPECT_EQ(deserialize_strategy(serialize(strategy_), "test"), strategy_);
}

TEST_F(SerializeTest, RefusesWhatIsNoDeployment) {
  EXPECT_THAT(refusal("not a protobuf"), HasSubstr("big/0: this is no deployment"));
  const std::string bytes = serialize(deployment_);
  EXPECT_THAT(refusal(bytes.substr(0, bytes.size() - 3)), HasSubstr("or not all of it"));
}

TEST_F(SerializeTest, RefusesAnotherVersion) {
  proto::Deployment message = to_proto(deployment_);
  message.set_version(1);
  EXPECT_THAT(refusal(message.SerializeAsString()), HasSubstr("format version 1, not 2"));
}

TEST_F(SerializeTest, RefusesNumbersOutOfRange) {
  proto::Deployment message = to_proto(deployment_);
  message.mutable_programs(0)->mutable_instructions(0)->add_inputs(100000);
  EXPECT_THAT(refusal(message.SerializeAsString()), HasSubstr("value 100000"));
  message = to_proto(deployment_);
  message.mutable_programs(0)->mutable_instructions(0)->set_kind(99);
  EXPECT_THAT(refusal(message.SerializeAsString()), HasSubstr("instruction of kind 99"));
}

}  // namespace
}  // namespace motley
