#include "coordinator/node_registry.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/coordinator/manual_clock.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

class NodeRegistryTest : public testing::Test {
 protected:
  static proto::NodeDescription node(const std::string& name, const std::string& address) {
    proto::NodeDescription node;
    node.set_name(name);
    node.set_address(address);
    node.add_devices()->set_name(name + "/0");
    return node;
  }
  std::string error_of(const proto::NodeDescription& node) {
    return support::error_of([&] { registry_.add(node); });
  }

  ManualClock clock_;
  NodeRegistry registry_{clock_, Seconds{5}};
};

TEST_F(NodeRegistryTest, ANodeLivesWhileItIsHeardOf) {
  const std::string session = registry_.add(node("big", "a:1"));
  clock_.advance(Seconds{4});
  EXPECT_TRUE(registry_.heartbeat("big", session));
  clock_.advance(Seconds{4});
  EXPECT_TRUE(registry_.is_alive("big"));
  clock_.advance(Seconds{2});
  EXPECT_FALSE(registry_.is_alive("big"));
  EXPECT_TRUE(registry_.alive().empty());
  EXPECT_FALSE(registry_.status().at(0).alive());
}

TEST_F(NodeRegistryTest, ARestartedAgentReplacesItself) {
  const std::string old = registry_.add(node("big", "a:1"));
  registry_.add(node("big", "a:1"));
  EXPECT_FALSE(registry_.heartbeat("big", old));
  registry_.remove("big", old);  // the late goodbye of the one before
  EXPECT_TRUE(registry_.is_alive("big"));
}

TEST_F(NodeRegistryTest, ALostNodeIsDeadUntilItRegistersAgain) {
  const std::string session = registry_.add(node("big", "a:1"));
  registry_.lose("big");
  EXPECT_FALSE(registry_.is_alive("big"));
  EXPECT_FALSE(registry_.heartbeat("big", session));  // it is told to register
  registry_.add(node("big", "b:2"));
  EXPECT_TRUE(registry_.is_alive("big"));
}

TEST_F(NodeRegistryTest, ANameIsOneLiveAgents) {
  registry_.add(node("big", "a:1"));
  EXPECT_THAT(error_of(node("big", "b:2")),
              testing::HasSubstr("a node named big is registered already, by the agent at a:1"));
  clock_.advance(Seconds{6});
  EXPECT_EQ(error_of(node("big", "b:2")), "no error");
}

TEST_F(NodeRegistryTest, RefusesNamesThatAreNotPlain) {
  EXPECT_THAT(error_of(node("a/b", "a:1")), testing::HasSubstr("'a/b' cannot be a node's name"));
  proto::NodeDescription doubled = node("big", "a:1");
  doubled.add_devices()->set_name("big/0");
  EXPECT_THAT(error_of(doubled), testing::HasSubstr("has a device named 'big/0'"));
}

}  // namespace
}  // namespace motley
