// The topologies of examples/clusters/: which links a message crosses, and so what it shares with others.

#include <gmock/gmock.h>

#include <map>

#include "profiler/catalogue.h"
#include "proto/cluster.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

class ExampleCluster {
 public:
  explicit ExampleCluster(const std::string& name)
      : cluster_(read_cluster("examples/clusters/" + name, catalogue_defaults)) {}

  // The names of the links on the way, in order; a link crossed from its end b to its end a has a "<" before it.
  std::vector<std::string> way(const std::string& from, const std::string& to) const {
    std::vector<std::string> names;
    for (const ChannelIndex channel : cluster_.route(cluster_.device_named(from), cluster_.device_named(to))) {
      names.push_back((channel % 2 == 0 ? "" : "<") + cluster_.links[channel / 2].name);
    }
    return names;
  }
  std::map<std::string, int> kinds() const {
    std::map<std::string, int> devices;
    for (const Device& device : cluster_.devices) ++devices[device.kind];
    return devices;
  }
  double latency(const std::string& from, const std::string& to) const {
    return cluster_.latency(cluster_.device_named(from), cluster_.device_named(to)).value;
  }
  double bandwidth(const std::string& from, const std::string& to) const {
    return cluster_.bandwidth(cluster_.device_named(from), cluster_.device_named(to)).value;
  }

 private:
  Cluster cluster_;
};

TEST(ExampleClusters, PairsBehindAPcieSwitchShareItsBridge) {
  const ExampleCluster c("pcie-switches.yaml");
  EXPECT_THAT(c.way("server/0", "server/1"), ElementsAre("server/0-pcie-0", "<server/1-pcie-0")) << "not by the host";
  EXPECT_THAT(c.way("server/0", "server/2"),
              ElementsAre("server/0-pcie-0", "bridge-0", "<bridge-1", "<server/2-pcie-1"));
  EXPECT_THAT(c.way("server/1", "small/1"),
              ElementsAre("server/1-pcie-0", "bridge-0", "server-tor", "<small-tor", "<small/1-small"));
  EXPECT_NEAR(c.latency("server/1", "small/1"), 28e-6, 1e-12);  // 1 + 2 + 10 + 10 + 5 us
  EXPECT_DOUBLE_EQ(c.bandwidth("server/1", "small/1"), 1.25e9);
}

TEST(ExampleClusters, NvlinkInsideAndUplinksBetweenRacks) {
  const ExampleCluster c("racks.yaml");
  EXPECT_THAT(c.way("a0/0", "a0/3"), ElementsAre("a0/0-a0/0-nvlink", "<a0/3-a0/0-nvlink"));
  EXPECT_THAT(c.way("a0/0", "a1/0"), ElementsAre("a0/0-a0", "a0-rack-a", "<a1-rack-a", "<a1/0-a1"));
  // Both servers of a rack go up by the same channel, and what comes down has the other one.
  EXPECT_THAT(c.way("a0/1", "b0/0"),
              ElementsAre("a0/1-a0", "a0-rack-a", "uplink-a", "<uplink-b", "<b0-rack-b", "<b0/0-b0"));
  EXPECT_THAT(c.way("b1/0", "a1/1"),
              ElementsAre("b1/0-b1", "b1-rack-b", "uplink-b", "<uplink-a", "<a1-rack-a", "<a1/1-a1"));
}

TEST(ExampleClusters, ZonesMeetOnOneSlowWay) {
  const ExampleCluster c("zones.yaml");
  EXPECT_THAT(c.way("east-0/0", "east-0/1"), ElementsAre("east-0/0-east-0/1"))
      << "two GPUs have an NVLink of their own";
  EXPECT_THAT(c.way("east-1/0", "west-0/2"),
              ElementsAre("east-1/0-east-1", "east-1-east", "between-zones", "<west-0-west", "<west-0/2-west-0"));
  EXPECT_DOUBLE_EQ(c.bandwidth("east-1/0", "west-0/2"), 5e9 / 8);
}

TEST(ExampleClusters, HaveTheDevicesThatTheyName) {
  const auto kinds = [](const std::string& name) { return ExampleCluster(name).kinds(); };
  EXPECT_THAT(kinds("heterog.yaml"),
              UnorderedElementsAre(Pair("V100-16GB", 2), Pair("GTX-1080-Ti", 4), Pair("P100-12GB", 2)));
  EXPECT_THAT(kinds("heterog-twice.yaml"),
              UnorderedElementsAre(Pair("V100-16GB", 4), Pair("GTX-1080-Ti", 8), Pair("P100-12GB", 4)));
  EXPECT_THAT(kinds("v100-t4.yaml"), UnorderedElementsAre(Pair("V100-16GB", 12), Pair("T4", 4)));
  EXPECT_THAT(kinds("a100-v100.yaml"), UnorderedElementsAre(Pair("A100-40GB", 8), Pair("V100-16GB", 8)));
  EXPECT_THAT(kinds("lab.yaml"), UnorderedElementsAre(Pair("RTX-3090", 8), Pair("RTX-2080-Ti", 8)));
  EXPECT_THAT(kinds("two-zones.yaml"),
              UnorderedElementsAre(Pair("A100-40GB", 16), Pair("V100-16GB", 16), Pair("A10", 16), Pair("T4", 16)));
  EXPECT_THAT(kinds("thousand.yaml"), UnorderedElementsAre(Pair("H100", 400), Pair("A100-80GB", 600)));
  EXPECT_THAT(kinds("ten-thousand.yaml"), ElementsAre(Pair("H100", 10000)));
}

TEST(ExampleClusters, TenThousandDevicesInHalls) {
  const ExampleCluster c("ten-thousand.yaml");
  EXPECT_THAT(c.way("a-0/0", "e-249/7"),
              ElementsAre("a-0/0-a-0", "a-0-hall-a", "uplink-a", "<uplink-e", "<e-249-hall-e", "<e-249/7-e-249"));
}

}  // namespace
}  // namespace motley
