#include "coordinator/worker_group.h"

#include <gmock/gmock.h>

#include "tests/coordinator/fake_launcher.h"
#include "tests/coordinator/manual_clock.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::HasSubstr;

class WorkerGroupTest : public testing::Test {
 protected:
  WorkerGroupTest() {
    for (const std::string name : {"a", "b"}) {
      proto::NodeDescription& node = nodes_[name];
      node.set_name(name);
      node.add_devices()->set_name(name + "/0");
      registry_.add(node);
    }
  }
  std::string run() {
    WorkerGroup group(launcher_, registry_, stop_.get_token());
    for (const auto& [name, node] : nodes_) {
      proto::RunRequest request;
      request.mutable_task()->mutable_device()->set_name(name + "/0");
      group.start(node, request);
    }
    return support::error_of([&] {
      group.run([&](const proto::WorkerEvent& event) { seen_.push_back(event.device() + " " + event.log()); });
    });
  }

  ManualClock clock_;
  NodeRegistry registry_{clock_, Seconds{5}};
  std::map<std::string, proto::NodeDescription> nodes_;
  FakeLauncher launcher_;
  std::stop_source stop_;
  std::vector<std::string> seen_;
};

TEST_F(WorkerGroupTest, EndsWhenAllHaveEnded) {
  launcher_.script = [](const auto&, const auto& tell, const auto&) {
    proto::WorkerEvent event;
    event.set_log("hello");
    tell(event);
    return FakeLauncher::done();
  };
  EXPECT_EQ(run(), "no error");
  EXPECT_THAT(seen_, testing::UnorderedElementsAre("a/0 hello", "b/0 hello"));
}

TEST_F(WorkerGroupTest, AFailureEndsTheOthersAndNamesDeviceAndNode) {
  launcher_.script = [](const auto& request, const auto&, const auto& stopped) {
    if (request.task().device().name() == "b/0") return FakeLauncher::failed("out of memory");
    FakeLauncher::wait(stopped);
    return FakeLauncher::done();
  };
  EXPECT_EQ(run(), "the worker of b/0 on node b failed: out of memory");
}

TEST_F(WorkerGroupTest, ALostMessageIsNotTheCause) {
  launcher_.script = [](const auto& request, const auto&, const auto&) {
    if (request.task().device().name() == "a/0") return FakeLauncher::failed("lost the peer", true);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return FakeLauncher::failed("killed");
  };
  EXPECT_EQ(run(), "the worker of b/0 on node b failed: killed");
}

TEST_F(WorkerGroupTest, ABrokenStreamLosesTheNode) {
  launcher_.script = [](const auto& request, const auto&, const auto& stopped) {
    if (request.task().device().name() == "a/0") {
      proto::Ended ended = FakeLauncher::failed("the agent no longer answers");
      ended.set_agent_lost(true);
      return ended;
    }
    FakeLauncher::wait(stopped);
    return FakeLauncher::done();
  };
  EXPECT_THAT(run(), HasSubstr("the agent no longer answers"));
  EXPECT_FALSE(registry_.is_alive("a"));
  EXPECT_TRUE(registry_.is_alive("b"));
}

TEST_F(WorkerGroupTest, ASilentNodeIsLost) {
  launcher_.script = [&](const auto& request, const auto&, const auto& stopped) {
    if (request.task().device().name() == "a/0") clock_.advance(Seconds{6});
    FakeLauncher::wait(stopped);
    return FakeLauncher::done();
  };
  EXPECT_THAT(run(), HasSubstr("node a has not been heard of for a while"));
}

TEST_F(WorkerGroupTest, CanBeCancelled) {
  launcher_.script = [&](const auto&, const auto&, const auto& stopped) {
    stop_.request_stop();
    FakeLauncher::wait(stopped);
    return FakeLauncher::failed("stopped");
  };
  EXPECT_EQ(run(), "the job was cancelled");
}

}  // namespace
}  // namespace motley
