#include "imports/tensor_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two nodes of four GPUs, and one of three; 10 GB/s from each GPU to its host, 8 GB/s between a host and the switch.
Cluster gpus() {
  const std::string text = R"(
nodes:
  - {name: a, count: 2, devices: {kind: X, count: 4, memory: 16GiB, nvlink: none, price: 2}, peer: {bandwidth: 10GB/s, latency: 0s}}
  - {name: b, devices: {kind: Y, count: 3, memory: 8GiB, nvlink: none}, peer: {bandwidth: 10GB/s, latency: 0s}}
switches: [tor]
links:
  - {between: [a, tor], bandwidth: 8GB/s, latency: 1us}
  - {between: [b, tor], bandwidth: 8GB/s, latency: 1us}
)";
  return parse_cluster(text, "gpus.yaml", nullptr);
}

std::vector<std::string> names(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Device& device : cluster.devices) names.push_back(device.name);
  return names;
}

TEST(TensorGroupsTest, NeighboursOfANodeAreADevice) {
  EXPECT_EQ(names(in_tensor_groups(gpus(), 1)), names(gpus()));
  const Cluster groups = in_tensor_groups(gpus(), 2);
  EXPECT_THAT(names(groups), ElementsAre("a-0/0-1", "a-0/2-3", "a-1/0-1", "a-1/2-3", "b/0-1"));  // b/2 is left over
  EXPECT_EQ(groups.devices[0].memory, Bytes(std::int64_t{16} << 30));
  EXPECT_DOUBLE_EQ(groups.devices[0].price.value(), 4);
}

// Two GPUs of a group send at once over the host's link, each has half of it; within a host each has a link of its own.
TEST(TensorGroupsTest, WhatGpusShareIsDivided) {
  const Cluster groups = in_tensor_groups(gpus(), 2);
  EXPECT_DOUBLE_EQ(groups.bandwidth(0, 2).value, 4e9);
  EXPECT_DOUBLE_EQ(groups.bandwidth(0, 1).value, 10e9);
  EXPECT_EQ(groups.latency(0, 2), Seconds(2e-6));
}

TEST(TensorGroupsTest, GroupsStayOnANode) {
  EXPECT_THAT(names(in_tensor_groups(gpus(), 3)), ElementsAre("a-0/0-2", "a-1/0-2", "b/0-2"));
  EXPECT_TRUE(has_tensor_groups(gpus(), 4));
  EXPECT_FALSE(has_tensor_groups(gpus(), 5));
  EXPECT_THAT(support::error_of([] { in_tensor_groups(gpus(), 5); }, ErrorKind::kInvalidInput),
              HasSubstr("gpus.yaml: no node has 5 GPUs of a kind"));
}

}  // namespace
}  // namespace motley
