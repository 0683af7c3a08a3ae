#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "proto/cluster.h"
#include "proto/cluster_message.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

KindDefaults lookup(const std::string& kind) {
  KindDefaults defaults;
  if (kind == "V100-16GB") return {Bytes(16000), BytesPerSecond(12e9), Seconds(5e-6), BytesPerSecond(150e9), ""};
  if (kind == "T4") return {Bytes(15000), BytesPerSecond(6e9), Seconds(8e-6), BytesPerSecond(0), ""};
  if (kind == "V100-16G") defaults.suggestion = "V100-16GB";
  return defaults;
}

const char* const kTwoNodes = R"(nodes:
  - name: big
    devices: {kind: V100-16GB, count: 2}
    peer: {bandwidth: 10GB/s}
  - name: small
    devices:
      - {kind: T4, memory: 10kB}
      - {kind: T4}
switches: [tor]
links:
  - {between: [big, tor], bandwidth: 100Gbps, latency: 10us}
  - {between: [tor, small], bandwidth: 10Gbps, latency: 20us, duplex: half, name: slow}
)";

Cluster parse(const std::string& yaml) { return parse_cluster(yaml, "c.yaml", lookup); }

std::string refusal(const std::string& yaml) {
  return support::error_of([&] { parse(yaml); }, ErrorKind::kInvalidInput);
}

// kTwoNodes with one piece replaced.
std::string edited(const std::string& from, const std::string& to) {
  std::string yaml = kTwoNodes;
  return yaml.replace(yaml.find(from), from.size(), to);
}

TEST(ClusterYaml, ReadsNodesDevicesAndLinks) {
  const Cluster cluster = parse(kTwoNodes);
  ASSERT_EQ(cluster.devices.size(), 4u);
  EXPECT_EQ(cluster.devices[1].name, "big/1");
  EXPECT_EQ(cluster.devices[1].memory.value, 16000);
  EXPECT_EQ(cluster.devices[2].memory.value, 10000);
  EXPECT_EQ(cluster.devices[3].name, "small/1");
  EXPECT_EQ(cluster.devices[3].memory.value, 15000);
  EXPECT_FALSE(cluster.links.back().full_duplex);
  EXPECT_EQ(cluster.links.back().name, "slow");
}

TEST(ClusterYaml, HostLinksComeFromTheNodeThenTheCatalogue) {
  const Cluster cluster = parse(kTwoNodes);
  // big/0 -> big (10 GB/s written, 5 us of the catalogue) -> tor -> small (10 Gbps = 1.25 GB/s) -> small/1 (6 GB/s, 8
  // us)
  EXPECT_DOUBLE_EQ(cluster.bandwidth(0, 3).value, 1.25e9);
  EXPECT_DOUBLE_EQ(cluster.latency(0, 3).value, 5e-6 + 10e-6 + 20e-6 + 8e-6);
  EXPECT_DOUBLE_EQ(cluster.bandwidth(2, 3).value, 6e9);
}

TEST(ClusterYaml, TwoPeersGetTheirOwnLink) {
  const Cluster cluster = parse(kTwoNodes);
  ASSERT_EQ(cluster.route(0, 1).size(), 1u);
  EXPECT_DOUBLE_EQ(cluster.bandwidth(0, 1).value, 150e9);
}

TEST(ClusterYaml, MorePeersMeetInACrossbar) {
  const Cluster cluster = parse(edited("count: 2", "count: 4, nvlink: 300GB/s"));
  EXPECT_DOUBLE_EQ(cluster.bandwidth(0, 3).value, 300e9);
  EXPECT_DOUBLE_EQ(cluster.latency(0, 3).value, kNvlinkLatency.value);
  EXPECT_EQ(cluster.route(0, 3).front(), cluster.route(0, 1).front()) << "one way out of a device for all its peers";
}

TEST(ClusterYaml, NvlinkCanBeAbsent) {
  const Cluster cluster = parse(edited("count: 2", "count: 2, nvlink: none"));
  EXPECT_DOUBLE_EQ(cluster.bandwidth(0, 1).value, 10e9);
}

TEST(ClusterYaml, TextReadsBackAsTheSameCluster) {
  const Cluster cluster = parse(edited("count: 2", "count: 3"));
  const Cluster again = parse_cluster(to_yaml(cluster), "c.yaml", lookup);
  EXPECT_EQ(to_message(again).DebugString(), to_message(cluster).DebugString());
}

TEST(ClusterYaml, ACurveOfRatesIsReadCheckedAndWritten) {
  const auto with = [](const std::string& curve) { return edited("latency: 10us", "latency: 10us, curve: " + curve); };
  const Cluster cluster = parse(with("{4KiB: 1Gbps, 1MiB: 80Gbps}"));
  const Link& link = *std::find_if(cluster.links.begin(), cluster.links.end(),
                                   [](const Link& link) { return link.name == "big-tor"; });
  ASSERT_EQ(link.curve.size(), 2u);
  EXPECT_EQ(link.curve[0].bytes, Bytes(4096));
  EXPECT_DOUBLE_EQ(link.curve[1].rate.value, 10e9);
  EXPECT_EQ(to_message(parse(to_yaml(cluster))).links().size(), static_cast<int>(cluster.links.size()));
  EXPECT_EQ(parse(to_yaml(cluster)).links[&link - cluster.links.data()].curve.size(), 2u);
  EXPECT_EQ(from_message(to_message(cluster)).links[&link - cluster.links.data()].curve[0].bytes, Bytes(4096));
  EXPECT_THAT(refusal(with("{1MiB: 1Gbps, 4KiB: 2Gbps}")), AllOf(StartsWith("c.yaml:11: "), HasSubstr("ascend")));
  EXPECT_THAT(refusal(with("{1MiB: 200Gbps}")), AllOf(StartsWith("c.yaml:11: "), HasSubstr("above the link's")));
  EXPECT_THAT(refusal(with("{1MiB: fast}")), AllOf(StartsWith("c.yaml:11: a rate"), HasSubstr("fast")));
  EXPECT_THAT(refusal(with("10Gbps")), AllOf(StartsWith("c.yaml:11: curve"), HasSubstr("SIZE: RATE")));
}

TEST(ClusterYaml, UnknownKeysAndUnitsNameTheLine) {
  EXPECT_THAT(refusal(edited("bandwidth: 100Gbps", "bandwith: 100Gbps")),
              AllOf(StartsWith("c.yaml:11: "), HasSubstr("did you mean bandwidth?")));
  EXPECT_THAT(refusal(edited("100Gbps", "100Gbpz")), AllOf(StartsWith("c.yaml:11: "), HasSubstr("100Gbpz")));
  EXPECT_THAT(refusal(edited("10kB", "10")), AllOf(StartsWith("c.yaml:7: memory: "), HasSubstr("GiB")));
  EXPECT_THAT(refusal(edited("half", "both")), StartsWith("c.yaml:12: duplex"));
}

TEST(ClusterYaml, UnknownKindIsSuggestedOrTakenWithItsFigures) {
  EXPECT_THAT(refusal(edited("V100-16GB", "V100-16G")),
              AllOf(StartsWith("c.yaml:3: "), HasSubstr("did you mean V100-16GB?")));
  const Cluster cluster = parse(edited("kind: V100-16GB", "kind: mine, memory: 1GiB"));
  EXPECT_EQ(cluster.devices[0].kind, "mine");
  EXPECT_THAT(refusal(edited("{kind: T4}", "{kind: mine, memory: 1GiB}")), HasSubstr("add peer:"));
}

TEST(ClusterYaml, NamesAreUniqueAndLinksLeadSomewhere) {
  EXPECT_THAT(refusal(edited("name: small", "name: big")), AllOf(StartsWith("c.yaml:5: "), HasSubstr("line 2")));
  EXPECT_THAT(refusal(edited("[tor]", "[tor, big]")), StartsWith("c.yaml:9: the name big"));
  EXPECT_THAT(refusal(edited("[big, tor]", "[bigg, tor]")),
              AllOf(StartsWith("c.yaml:11: "), HasSubstr("did you mean big?")));
  EXPECT_THAT(refusal(edited("[big, tor]", "[tor, tor]")), HasSubstr("to itself"));
  EXPECT_THAT(refusal(edited("[big, tor]", "[tor]")), StartsWith("c.yaml:11: a link says between"));
}

TEST(ClusterYaml, NamesAreWordsThatATerminalShows) {
  for (const char* name : {"", "a b", "a,b", R"(a\nb)", R"(a\0b)", R"(a\e[31mb)", R"(a\x7fb)"}) {
    EXPECT_THAT(refusal(edited("name: big", "name: \"" + std::string(name) + '"')),
                AllOf(StartsWith("c.yaml:2: a node's name is one word"), Not(HasSubstr("\033"))))
        << name;
  }
  EXPECT_EQ(parse("nodes: [{name: größe, devices: {kind: T4}}]").devices[0].name, "größe/0");
}

TEST(ClusterYaml, CountsAreWholeAndPositive) {
  for (const char* count : {"count: 0", "count: -2", "count: 1.5", "count: many", "count: 99999"}) {
    EXPECT_THAT(refusal(edited("count: 2", count)), StartsWith("c.yaml:3: count is a whole number")) << count;
  }
  EXPECT_THAT(refusal(edited("100Gbps", "0")), HasSubstr("bandwidth must be above 0"));
  EXPECT_THAT(refusal(edited("10kB", "-1GB")), StartsWith("c.yaml:7: memory"));
}

TEST(ClusterYaml, MissingPiecesAreNamed) {
  EXPECT_THAT(refusal(""), StartsWith("c.yaml"));
  EXPECT_THAT(refusal("nodes: 3"), StartsWith("c.yaml:1: nodes is a list"));
  EXPECT_THAT(refusal("nodes: []"), HasSubstr("there are no devices"));
  EXPECT_THAT(refusal("nodes: [{name: a}]"), HasSubstr("node a has no devices"));
  EXPECT_THAT(refusal(edited(", latency: 10us", "")), HasSubstr("this link has no latency"));
  EXPECT_THAT(refusal(edited("  - {between: [big, tor], bandwidth: 100Gbps, latency: 10us}\n", "")),
              HasSubstr("no path of links joins"));
}

TEST(ClusterYaml, ANodeCanStandForSeveral) {
  const Cluster cluster = parse(edited("name: small", "name: small\n    count: 3"));
  ASSERT_EQ(cluster.nodes.size(), 4u);
  EXPECT_EQ(cluster.nodes[1].name, "small-0");
  EXPECT_EQ(cluster.devices.back().name, "small-2/1");
  std::vector<std::string> names;
  for (const Link& link : cluster.links) names.push_back(link.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"big-tor", "slow-0", "slow-1", "slow-2"})) << "each has the node's links";
  EXPECT_DOUBLE_EQ(cluster.bandwidth(cluster.device_named("small-0/0"), cluster.device_named("small-2/0")).value,
                   1.25e9);
  EXPECT_THAT(refusal(edited("name: small", "name: small\n    count: 0")), StartsWith("c.yaml:6: count"));
  std::string clash = edited("name: small", "name: small\n    count: 3");
  EXPECT_THAT(refusal(clash.replace(clash.find("[tor]"), 5, "[tor, small-1]")), HasSubstr("the name small-1"));
}

// 2 V100 at 3.0 and 2 T4 at 0.5, and the node small at 0.25.
TEST(ClusterYaml, PricesAreOfKindsOfDevicesAndOfNodes) {
  const std::string priced =
      "prices: {V100-16GB: 3.0, T4: 0.5}\n" + edited("name: small", "name: small\n    price: 0.25");
  EXPECT_DOUBLE_EQ(parse(priced).price().value(), 2 * 3.0 + 2 * 0.5 + 0.25);
  EXPECT_DOUBLE_EQ(parse(to_yaml(parse(priced))).price().value(), 7.25);
  EXPECT_EQ(parse(kTwoNodes).price(), std::nullopt) << "nobody said one";
  EXPECT_EQ(parse(edited("count: 2", "count: 2, price: 2")).price(), std::nullopt) << "nor of T4";
  const std::string whole = edited("{kind: V100-16GB, count: 2}", "{kind: V100-16GB, count: 2, price: 2}");
  EXPECT_DOUBLE_EQ(
      parse(std::string(whole).replace(whole.find("name: small"), 11, "name: small\n    price: 1")).price().value(), 5)
      << "a node's price covers its devices that have none";
  EXPECT_THAT(refusal("prices: {T4: cheap}\n" + std::string(kTwoNodes)), StartsWith("c.yaml:1: a price is a number"));
}

class ChangedCluster : public testing::Test {
 protected:
  static Cluster changed(const ClusterChanges& changes, const std::string& yaml = kTwoNodes) {
    return parse_cluster(yaml, "c.yaml", lookup, changes);
  }
  static std::string refusal(const ClusterChanges& changes) {
    return support::error_of([&] { changed(changes); }, ErrorKind::kInvalidInput);
  }
};

TEST_F(ChangedCluster, MoreNodesAndDevices) {
  EXPECT_EQ(changed({.nodes = {{"small", 3}}}).devices.size(), 2u + 3 * 2);
  EXPECT_EQ(changed({.nodes = {{"small", 0}}}).devices.size(), 2u);
  const Cluster four = changed({.devices = {{"big", 4}}});
  EXPECT_EQ(four.devices.size(), 6u);
  EXPECT_EQ(four.route(0, 3).size(), 2u) << "four peers meet in a crossbar";
  EXPECT_THAT(refusal({.nodes = {{"smal", 2}}}), HasSubstr("did you mean small?"));
  EXPECT_THAT(refusal({.devices = {{"small", 2}}}), HasSubstr("several entries"));
}

TEST_F(ChangedCluster, AnotherKindBringsItsOwnMemoryLinksAndPrice) {
  const Cluster cluster =
      changed({.kinds = {{"T4", "V100-16GB"}}}, "prices: {V100-16GB: 3, T4: 1}\n" + std::string(kTwoNodes));
  EXPECT_EQ(cluster.devices[2].kind, "V100-16GB");
  EXPECT_EQ(cluster.devices[2].memory, Bytes(16000)) << "not the 10 kB of the T4";
  EXPECT_DOUBLE_EQ(cluster.bandwidth(2, 3).value, 12e9);
  EXPECT_DOUBLE_EQ(cluster.price().value(), 12);
  EXPECT_EQ(changed({.kinds = {{"big", "T4"}}}).devices[0].kind, "T4");
  EXPECT_THAT(refusal({.kinds = {{"T5", "T4"}}}), HasSubstr("no node or kind of device T5"));
}

TEST_F(ChangedCluster, TheNodesPriceIsThatOfItsOldDevices) {
  const std::string yaml = "prices: {V100-16GB: 3}\n" + edited("name: small", "name: small\n    price: 1");
  EXPECT_DOUBLE_EQ(changed({}, yaml).price().value(), 7);
  EXPECT_EQ(changed({.kinds = {{"small", "V100-16GB"}}}, yaml).price(), std::nullopt);
}

TEST_F(ChangedCluster, ALostNodeTakesItsLinksAlong) {
  const Cluster cluster = changed({.lost = {"small"}});
  EXPECT_EQ(cluster.devices.size(), 2u);
  for (const Link& link : cluster.links) EXPECT_EQ(link.name.find("small"), std::string::npos) << link.name;
  EXPECT_EQ(changed({.nodes = {{"small", 3}}, .lost = {"small-1"}}).nodes.size(), 3u);
  EXPECT_EQ(changed({.kinds = {{"T4", "V100-16GB"}}, .lost = {"small"}}).devices.size(), 2u) << "no T4 is left";
  EXPECT_THROW(changed({.lost = {"small", "big"}}), UnusableCluster);
  EXPECT_THAT(refusal({.lost = {"tor"}}), HasSubstr("there is no node tor"));
}

TEST(ClusterYaml, BrokenYamlNamesTheLine) {
  EXPECT_THAT(refusal("nodes:\n  - {name: a\n"), StartsWith("c.yaml:"));
  EXPECT_THAT(refusal(edited("switches:", "---\nswitches:")), StartsWith("c.yaml:10: a second document"));
  EXPECT_THROW(read_cluster("no/such/cluster.yaml", lookup), Error);
}

}  // namespace
}  // namespace motley
