#include "proto/cluster.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "proto/cluster_message.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two racks of two hosts with one device each; two core switches, the second reached by wider links.
//        core0   core1
//         |  \ /  |
//        tor0   tor1          links: 0-3 host links, 4-7 hosts to tors,
//        /  \   /  \                 8 tor0-core0 10, 9 tor1-core0 10, 10 tor0-core1 20, 11 tor1-core1 40
//       a    b c    d
class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    tree_.source = "tree.yaml";
    tree_.nodes = {{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}};
    tree_.switches = {"tor0", "tor1", "core0", "core1"};
    for (std::int32_t node = 0; node < 4; ++node) tree_.devices.push_back({"", "T4", node, Bytes(100)});
    for (std::int32_t node = 0; node < 4; ++node) join(node, tree_.vertex_of_node(node), 100, 0.25);
    for (std::int32_t node = 0; node < 4; ++node) join(tree_.vertex_of_node(node), tor(node / 2), 10, 1);
    join(tor(0), core(0), 10, 2);
    join(tor(1), core(0), 10, 2);
    join(tor(0), core(1), 20, 2);
    join(tor(1), core(1), 40, 2);
  }

  void join(VertexIndex a, VertexIndex b, double bandwidth, double latency) {
    tree_.links.push_back({"", a, b, BytesPerSecond(bandwidth), Seconds(latency), true});
  }
  VertexIndex tor(std::int32_t i) const { return tree_.vertex_of_switch(i); }
  VertexIndex core(std::int32_t i) const { return tree_.vertex_of_switch(2 + i); }
  std::string refusal() {
    return support::error_of([&] { tree_.finish(); });
  }

  Cluster tree_;
};

TEST_F(ClusterTest, RoutesWithinARackThroughItsSwitch) {
  tree_.finish();
  // a/0 up link 0, a up link 4, down link 5 to b (b is its end a: from tor0 is the way back), down link 1.
  EXPECT_THAT(tree_.route(0, 1), ElementsAre(2 * 0, 2 * 4, 2 * 5 + 1, 2 * 1 + 1));
  EXPECT_DOUBLE_EQ(tree_.latency(0, 1).value, 0.25 + 1 + 1 + 0.25);
  EXPECT_DOUBLE_EQ(tree_.bandwidth(0, 1).value, 10);
}

TEST_F(ClusterTest, RoutesAcrossRacksByTheWiderCore) {
  for (int i = 4; i < 8; ++i) tree_.links[i].bandwidth = BytesPerSecond(50);
  tree_.finish();
  EXPECT_THAT(tree_.route(0, 3), ElementsAre(0, 8, 2 * 10, 2 * 11 + 1, 2 * 7 + 1, 2 * 3 + 1));
  EXPECT_DOUBLE_EQ(tree_.bandwidth(0, 3).value, 20);
  EXPECT_DOUBLE_EQ(tree_.latency(0, 3).value, 2 * (0.25 + 1 + 2));
}

TEST_F(ClusterTest, EqualWidthsGoByTheLowestLink) {
  for (int i = 10; i < 12; ++i) tree_.links[i].bandwidth = BytesPerSecond(10);
  tree_.finish();
  EXPECT_THAT(tree_.route(0, 2), ElementsAre(0, 8, 2 * 8, 2 * 9 + 1, 2 * 6 + 1, 2 * 2 + 1));
}

TEST_F(ClusterTest, AnEndThatIsNarrowerDoesNotHideTheWiderCore) {
  tree_.finish();  // the hosts have 10, core0 10, core1 20
  EXPECT_THAT(tree_.route(0, 2), ElementsAre(0, 8, 2 * 10, 2 * 11 + 1, 2 * 6 + 1, 2 * 2 + 1));
  EXPECT_DOUBLE_EQ(tree_.bandwidth(0, 2).value, 10);
}

TEST_F(ClusterTest, NoRouteToItselfIsNeeded) {
  tree_.finish();
  EXPECT_THAT(tree_.route(2, 2), IsEmpty());
  EXPECT_DOUBLE_EQ(tree_.latency(2, 2).value, 0);
}

TEST_F(ClusterTest, HalfDuplexLinkIsOneChannel) {
  tree_.links[0].full_duplex = false;
  tree_.finish();
  EXPECT_EQ(tree_.route(0, 1).front(), 0);
  EXPECT_EQ(tree_.route(1, 0).back(), 0);
}

TEST_F(ClusterTest, DevicesDoNotForward) {
  tree_.links.clear();  // a/0 - b/0 - c/0 in a row, with d/0 at b/0 as well
  join(0, 1, 10, 1);
  join(1, 2, 10, 1);
  join(1, 3, 10, 1);
  EXPECT_THAT(refusal(), HasSubstr("no path of links joins a/0 and c/0"));
}

TEST_F(ClusterTest, FillsNames) {
  join(tree_.vertex_of_node(0), tor(0), 5, 1);
  tree_.finish();
  EXPECT_EQ(tree_.devices[2].name, "c/0");
  EXPECT_THAT(tree_.nodes[2].devices, ElementsAre(2));
  EXPECT_EQ(tree_.links[4].name, "a-tor0");
  EXPECT_EQ(tree_.links[12].name, "a-tor0-2");
  EXPECT_EQ(tree_.device_named("d/0"), 3);
}

TEST_F(ClusterTest, UnknownDeviceNamesThoseThereAre) {
  tree_.finish();
  const std::string message = support::error_of([&] { tree_.device_named("a/00"); }, ErrorKind::kNotFound);
  EXPECT_THAT(message, HasSubstr("did you mean a/0?"));
  EXPECT_THAT(message, HasSubstr("c/0 d/0"));
}

TEST_F(ClusterTest, RefusesTheUnconnected) {
  tree_.links.erase(tree_.links.begin() + 8, tree_.links.end());
  EXPECT_THAT(refusal(), HasSubstr("tree.yaml: no path of links joins a/0 and c/0"));
}

TEST_F(ClusterTest, RefusesWhatIsNoFigure) {
  tree_.links[4].bandwidth = BytesPerSecond(0);
  EXPECT_THAT(refusal(), HasSubstr("link a-tor0 has no bandwidth"));
  tree_.links[4].bandwidth = BytesPerSecond(1);
  tree_.links[4].latency = Seconds(-1);
  EXPECT_THAT(refusal(), HasSubstr("link a-tor0 has a negative latency"));
  tree_.links[4].latency = Seconds(0);
  tree_.devices[1].memory = Bytes(0);
  EXPECT_THAT(refusal(), HasSubstr("device b/0 has no memory"));
}

TEST_F(ClusterTest, RefusesWrongReferences) {
  tree_.links[0].b = 99;
  EXPECT_THAT(refusal(), HasSubstr("link 0 leads to nowhere"));
  tree_.links[0].b = tree_.links[0].a;
  EXPECT_THAT(refusal(), HasSubstr("to itself"));
  tree_.devices[0].node = 7;
  EXPECT_THAT(refusal(), HasSubstr("stands on no node"));
}

TEST_F(ClusterTest, RefusesDuplicateNames) {
  tree_.switches[0] = "b";
  EXPECT_THAT(refusal(), HasSubstr("the name b stands twice"));
}

TEST_F(ClusterTest, TravelsAsMessage) {
  tree_.links[4].full_duplex = false;
  tree_.finish();
  const Cluster copy = from_message(to_message(tree_));
  EXPECT_EQ(to_message(copy).SerializeAsString(), to_message(tree_).SerializeAsString());
  EXPECT_EQ(copy.route(0, 3), tree_.route(0, 3));
}

}  // namespace
}  // namespace motley
