#include "compiler/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/chain_graph.h"
#include "tests/support/error_of.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

using testing::HasSubstr;

// The chain of two groups, l0 and l1, on devices n0/0 and n1/0.
class PlanFileTest : public testing::Test {
 protected:
  PlanFile parse(const std::string& yaml) const { return parse_plan(yaml, "p.yaml", graph_, cluster_); }

  // What is said when `from` is replaced by `to` in a good plan.
  std::string refusal(const std::string& from, const std::string& to) const {
    std::string yaml = kGood;
    yaml.replace(yaml.find(from), from.size(), to);
    return support::error_of([&] { parse(yaml); }, ErrorKind::kInvalidInput);
  }

  const std::string kGood = R"(motley_plan: 1
strategy: search
graph: {name: chain, fingerprint: chain}
cluster: [n0/0, n1/0]
batch: 12
bucket: 25MiB
groups:
  - {group: 0, name: l0, shares: {n0/0: 8, n1/0: 4}, gradient: all-reduce}
  - {group: 1, name: l1, shares: {n1/0: 1}, gradient: parameter-server}
)";
  Graph graph_ = support::chain_graph();
  Cluster cluster_ = support::star_cluster(2, {BytesPerSecond(1)});
};

TEST_F(PlanFileTest, ReadsWhatAPersonWrote) {
  const PlanFile plan = parse(kGood);
  EXPECT_EQ(plan.batch, 12);
  EXPECT_EQ(plan.strategy.name, "search");
  EXPECT_EQ(plan.strategy.bucket, Bytes(25 << 20));
  EXPECT_EQ(plan.strategy.groups[0], (GroupDecision{{{0, 8}, {1, 4}}, GradientMethod::kAllReduce}));
  EXPECT_EQ(plan.strategy.groups[1], (GroupDecision{{{1, 1}}, GradientMethod::kParameterServer}));
}

TEST_F(PlanFileTest, WritesWhatItReads) {
  PlanFile plan{{"odd \"name\"",
                 {{{{0, 0.1}, {1, 1.0 / 3}}, {}}, {{{0, 1e-30}}, GradientMethod::kParameterServer}},
                 Bytes(12345)},
                7};
  const PlanFile back = parse(plan_to_yaml(plan, graph_, cluster_));
  EXPECT_EQ(back.strategy, plan.strategy);
  EXPECT_EQ(back.batch, 7);
}

TEST_F(PlanFileTest, WritesAPipelineAsItReadsIt) {
  PlanFile plan{{"pipeline", {{{{0, 1}}, {}, 0}, {{{1, 1}}, {}, 1}}, Bytes(1), 6, "zb-h1"}, 12};
  EXPECT_EQ(parse(plan_to_yaml(plan, graph_, cluster_)).strategy, plan.strategy);
}

TEST_F(PlanFileTest, RefusesAPipelineThatMakesNoSense) {
  EXPECT_THAT(refusal("bucket: 25MiB", "bucket: 25MiB\nmicro_batches: 0"),
              HasSubstr("p.yaml:7: there is at least one"));
  EXPECT_THAT(refusal("bucket: 25MiB", "bucket: 25MiB\nschedule: 1f1"),
              HasSubstr("p.yaml:7: there is no schedule 1f1"));
  EXPECT_THAT(refusal("all-reduce}", "all-reduce, stage: 2}"), HasSubstr("p.yaml:8: stages are numbered from 0"));
}

TEST_F(PlanFileTest, ReadsJson) {
  const PlanFile plan = parse(R"({"motley_plan": 1, "strategy": "s", "graph": {"fingerprint": "chain"},
    "cluster": ["n1/0", "n0/0"], "batch": 2, "bucket": "1MiB", "groups": [
    {"group": 1, "name": "l1", "shares": {"n0/0": 1}, "gradient": "all-reduce"},
    {"group": 0, "name": "l0", "shares": {"n1/0": 1}, "gradient": "all-reduce"}]})");
  EXPECT_EQ(plan.strategy.groups[0].shares[0].device, 1);
}

TEST_F(PlanFileTest, RefusesAnotherGraph) {
  EXPECT_THAT(refusal("fingerprint: chain", "fingerprint: 77ab"),
              HasSubstr("p.yaml:3: the plan is for another training graph (fingerprint 77ab)"));
}

TEST_F(PlanFileTest, RefusesAnotherCluster) {
  EXPECT_THAT(refusal("[n0/0, n1/0]", "[n0/0]"), HasSubstr("p.yaml:4: the plan is for a cluster without device n1/0"));
  EXPECT_THAT(refusal("[n0/0,", "[n0/0, n0/1,"), HasSubstr("p.yaml:4: there is no device n0/1"));
}

TEST_F(PlanFileTest, RefusesUnknownDevicesAndGroups) {
  EXPECT_THAT(refusal("{n1/0: 1}", "{n7/0: 1}"), HasSubstr("p.yaml:9: there is no device n7/0 (did you mean"));
  EXPECT_THAT(refusal("group: 1", "group: 2"), HasSubstr("p.yaml:9: there is no group 2; chain has groups 0 to 1"));
  EXPECT_THAT(refusal("name: l1", "name: l9"), HasSubstr("p.yaml:9: group 1 of chain is called l1, not l9"));
  EXPECT_THAT(refusal("group: 1, name: l1", "group: 0, name: l0"), HasSubstr("p.yaml:9: group 0 stands twice"));
  EXPECT_THAT(refusal("  - {group: 0, name: l0, shares: {n0/0: 8, n1/0: 4}, gradient: all-reduce}\n", ""),
              HasSubstr("group 0 (l0) is missing"));
}

TEST_F(PlanFileTest, RefusesBadValues) {
  EXPECT_THAT(refusal("motley_plan: 1", "motley_plan: 2"),
              HasSubstr("p.yaml:1: this motley reads plans of format version 1"));
  EXPECT_THAT(refusal("n1/0: 4", "n1/0: -4"), HasSubstr("p.yaml:8: the share of n1/0 is a number above 0"));
  EXPECT_THAT(refusal("batch: 12", "batch: many"), HasSubstr("p.yaml:5: batch is a whole number"));
  EXPECT_THAT(refusal("25MiB", "25"), HasSubstr("p.yaml:6: bucket"));
  EXPECT_THAT(refusal("all-reduce", "ring"), HasSubstr("gradient is all-reduce or parameter-server, not ring"));
  EXPECT_THAT(refusal("batch:", "bach:"), HasSubstr("p.yaml:5: a plan has no key bach (did you mean batch?)"));
  EXPECT_THAT(refusal("batch: 12\n", ""), HasSubstr("batch is missing"));
  EXPECT_THAT(refusal("groups:", "groups: ["), HasSubstr("this is no YAML"));
}

}  // namespace
}  // namespace motley
