#include "coordinator/cluster_of_nodes.h"

#include <gmock/gmock.h>

namespace motley {
namespace {

class ClusterOfNodesTest : public testing::Test {
 protected:
  void add(const std::string& node, int devices) {
    UsedDevice used;
    used.node.set_name(node);
    for (int i = 0; i < devices; ++i) {
      used.device.set_name(node + "/" + std::to_string(i));
      used.device.set_kind("cpu");
      used.device.set_memory(1 << 30);
      devices_.push_back(used);
    }
  }
  void measure(const std::string& a, const std::string& b, double latency, double bandwidth) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      proto::LinkFigure& link = links_.emplace_back();
      link.set_from(from);
      link.set_to(to);
      link.set_latency_seconds(latency);
      link.set_bytes_per_second(bandwidth);
    }
  }

  std::vector<UsedDevice> devices_;
  std::vector<proto::LinkFigure> links_;
};

TEST_F(ClusterOfNodesTest, FindsTheEndsOfAStar) {
  // Ports of 100, 50 and 25 MB/s with latencies of 1, 2 and 3 ms.
  add("a", 1);
  add("b", 1);
  add("c", 1);
  measure("a/0", "b/0", 3e-3, 50e6);
  measure("a/0", "c/0", 4e-3, 25e6);
  measure("b/0", "c/0", 5e-3, 25e6);
  const Cluster cluster = cluster_of_nodes(devices_, links_);
  EXPECT_NEAR(cluster.latency(0, 1).value, 3e-3, 1e-5);
  EXPECT_NEAR(cluster.latency(0, 2).value, 4e-3, 1e-5);
  EXPECT_NEAR(cluster.latency(1, 2).value, 5e-3, 1e-5);
  EXPECT_EQ(cluster.bandwidth(0, 1).value, 50e6);
  EXPECT_EQ(cluster.bandwidth(1, 2).value, 25e6);
}

TEST_F(ClusterOfNodesTest, TwoNodesShareTheLatency) {
  add("a", 1);
  add("b", 1);
  measure("a/0", "b/0", 1e-3, 1e8);
  const Cluster cluster = cluster_of_nodes(devices_, links_);
  EXPECT_NEAR(cluster.latency(0, 1).value, 1e-3, 1e-5);
  EXPECT_EQ(cluster.bandwidth(1, 0).value, 1e8);
}

TEST_F(ClusterOfNodesTest, DevicesOfANodeShareItsLink) {
  add("a", 2);
  add("b", 1);
  measure("a/0", "a/1", 1e-5, 1e10);
  measure("a/0", "b/0", 1e-3, 1e8);
  measure("a/1", "b/0", 1e-3, 1e8);
  const Cluster cluster = cluster_of_nodes(devices_, links_);
  EXPECT_EQ(cluster.bandwidth(0, 1).value, 1e10);
  EXPECT_EQ(cluster.bandwidth(0, 2).value, 1e8);
  EXPECT_EQ(cluster.route(0, 2).back(), cluster.route(1, 2).back());
}

TEST_F(ClusterOfNodesTest, OneDeviceIsACluster) {
  add("a", 1);
  EXPECT_EQ(cluster_of_nodes(devices_, {}).devices.size(), 1U);
}

}  // namespace
}  // namespace motley
