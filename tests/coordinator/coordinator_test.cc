#include "coordinator/coordinator.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "coordinator/client.h"
#include "graph/serialize.h"
#include "profiler/signature.h"
#include "tests/coordinator/fake_launcher.h"
#include "tests/coordinator/manual_clock.h"
#include "tests/coordinator/small_model.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;

// A coordinator whose agents exist only in its registry, and whose workers are scripts.
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() {
    launcher_.script = [this](const auto& request, const auto& tell, const auto& stopped) {
      return work(request, tell, stopped);
    };
    CoordinatorOptions options;
    options.state = folder_ / "state";
    options.blob_limit = Bytes(0);  // nothing stays for long but what is needed
    coordinator_ = std::make_unique<Coordinator>(options, clock_, launcher_);
    client_ = std::make_unique<CoordinatorClient>(coordinator_->address());
    write_file_atomically(folder_ / "model", "weights");
  }
  void add_node(const std::string& name, std::int64_t memory = 1 << 30) {
    proto::NodeDescription node;
    node.set_name(name);
    node.set_address(name + ":1");
    node.set_data_address(name);
    auto& device = *node.add_devices();
    device.set_name(name + "/0");
    device.set_kind("cpu");
    device.set_type("cpu");
    device.set_memory(memory);
    proto::RegisterResponse response;
    ASSERT_TRUE(coordinator_->Register(nullptr, &node, &response).ok());
  }
  // Profiling finds what the device is and the time of one op; training tells its iterations, or waits until it is
  // stopped.
  proto::Ended work(const proto::RunRequest& request, const FakeLauncher::Tell& tell,
                    const FakeLauncher::Stopped& stopped) {
    const proto::WorkerTask& task = request.task();
    proto::WorkerEvent event;
    if (task.has_profile()) {
      ++profiles_;
      event.mutable_profile()->mutable_fingerprint()->set_kind("cpu");
      auto& op = *event.mutable_profile()->add_ops();
      op.set_signature(signatures_of(small_model()).distinct[0].hash);
      auto& point = *op.add_points();
      point.set_batch(8);
      point.set_seconds(0.5);
      tell(event);
    }
    if (!task.has_train()) return FakeLauncher::done();
    event.mutable_ready();
    tell(event);
    if (!failure_.empty()) return FakeLauncher::failed(failure_);
    for (std::int64_t i = 0; i < task.train().iterations(); ++i) {
      event.mutable_metrics()->set_iteration(i);
      event.mutable_metrics()->set_loss(0.5);
      tell(event);
    }
    if (hold_) FakeLauncher::wait(stopped);
    return FakeLauncher::done();
  }
  proto::JobSpec spec(const std::vector<std::string>& devices = {}) {
    proto::JobSpec spec;
    spec.set_kind(proto::JOB_RUN);
    spec.set_model_hash(client_->upload(folder_ / "model"));
    spec.set_model_name("small");
    spec.set_batch(8);
    spec.set_graph(serialize(small_model()));
    spec.set_strategy("ev-ar");
    spec.set_data("data");
    spec.set_iterations(3);
    for (const std::string& device : devices) spec.add_devices(device);
    return spec;
  }
  std::string error_of(const proto::JobSpec& spec) {
    return support::error_of([&] { client_->submit(spec); });
  }
  proto::JobEnd end_of(std::int64_t job) {
    return client_->watch(job, [](const auto&) { return true; });
  }
  void wait_for(std::int64_t job, proto::JobState state) {
    client_->watch(job, [&](const proto::JobEvent& event) { return !(event.has_state() && event.state() == state); });
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  FakeLauncher launcher_;
  std::atomic<bool> hold_{false};
  std::atomic<int> profiles_{0};  // taken
  std::string failure_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(CoordinatorTest, RunsAJob) {
  add_node("a");
  add_node("b");
  std::vector<double> losses;
  bool planned = false;
  const proto::JobEnd end = client_->watch(client_->submit(spec()), [&](const proto::JobEvent& event) {
    if (event.has_metrics()) losses.push_back(event.metrics().loss());
    if (event.has_plan()) planned = event.plan().judged().feasible();
    return true;
  });
  EXPECT_EQ(end.state(), proto::STATE_DONE) << end.message();
  EXPECT_THAT(losses, testing::ElementsAre(1, 1, 1));  // half from each of two devices
  EXPECT_TRUE(planned);
  EXPECT_EQ(client_->status().jobs(0).iteration(), 3);
}

TEST_F(CoordinatorTest, AProfileJobTellsTheClusterAndWhatItsOpsCost) {
  add_node("a");
  add_node("b");
  proto::JobSpec profile = spec();
  profile.set_kind(proto::JOB_PROFILE);
  std::string cluster;
  proto::CostsFound costs;
  client_->watch(client_->submit(profile), [&](const proto::JobEvent& event) {
    if (event.has_cluster()) cluster = event.cluster();
    if (event.has_costs()) costs = event.costs();
    return true;
  });
  EXPECT_NE(cluster, "");
  ASSERT_EQ(costs.profiles_size(), 1);  // both devices are alike
  EXPECT_EQ(costs.profiles(0).fingerprint().kind(), "cpu");
  EXPECT_EQ(costs.profiles(0).ops(0).points(0).seconds(), 0.5);
  ASSERT_EQ(costs.devices_size(), 2);
  EXPECT_EQ(costs.devices(1).name(), "b/0");
  EXPECT_EQ(costs.devices(1).fingerprint().kind(), "cpu");
}

TEST_F(CoordinatorTest, AFailureEndsTheJobWithTheLastWords) {
  add_node("a");
  failure_ = "no space left";
  const proto::JobEnd end = end_of(client_->submit(spec()));
  EXPECT_EQ(end.state(), proto::STATE_FAILED);
  EXPECT_EQ(end.message(), "the worker of a/0 on node a failed: no space left");
}

TEST_F(CoordinatorTest, AQueuedJobKeepsItsModel) {
  const std::int64_t job = client_->submit(spec());  // there is no node to run it
  const auto upload_hours_later = [&](const std::string& other) {
    const auto model = folder_.path() / "state" / "blobs" / spec().model_hash();
    std::filesystem::last_write_time(model, std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
    write_file_atomically(folder_ / other, other);
    client_->upload(folder_ / other);
    return std::filesystem::exists(model);
  };
  EXPECT_TRUE(upload_hours_later("one"));
  client_->cancel(job);
  EXPECT_FALSE(upload_hours_later("two"));
}

TEST_F(CoordinatorTest, JobsOnOtherDevicesRunAtOnce) {
  add_node("a");
  add_node("b");
  hold_ = true;
  const auto first = client_->submit(spec({"a/0"}));
  const auto second = client_->submit(spec({"b/0"}));
  wait_for(first, proto::STATE_RUNNING);
  wait_for(second, proto::STATE_RUNNING);
  client_->cancel(first);
  EXPECT_EQ(end_of(first).state(), proto::STATE_CANCELLED);
}

TEST_F(CoordinatorTest, AJobWaitsForItsDevices) {
  add_node("a");
  hold_ = true;
  const auto first = client_->submit(spec());
  const auto second = client_->submit(spec());
  wait_for(first, proto::STATE_RUNNING);
  EXPECT_EQ(client_->status().jobs(1).state(), proto::STATE_QUEUED);
  client_->cancel(first);
  wait_for(second, proto::STATE_RUNNING);
}

TEST_F(CoordinatorTest, AQueuedJobCanBeCancelled) {
  const auto job = client_->submit(spec());  // there is no node yet
  client_->cancel(job);
  EXPECT_THAT(end_of(job).message(), HasSubstr("cancelled before it began"));
}

TEST_F(CoordinatorTest, WhatWasMeasuredCountsUntilTheAgentRegistersAgain) {
  add_node("a");
  for (int job = 0; job < 2; ++job) end_of(client_->submit(spec()));
  EXPECT_EQ(profiles_, 1);
  add_node("a");  // restarted, perhaps with other devices
  end_of(client_->submit(spec()));
  EXPECT_EQ(profiles_, 2);
}

TEST_F(CoordinatorTest, AJobMayEndWithItsWatcher) {
  add_node("a");
  hold_ = true;
  for (const bool ends : {false, true}) {
    const auto job = client_->submit(spec());
    client_->watch(
        job, [](const proto::JobEvent& event) { return !event.has_metrics(); }, ends);
    if (!ends) client_->cancel(job);
    EXPECT_EQ(end_of(job).state(), proto::STATE_CANCELLED);
  }
}

TEST_F(CoordinatorTest, ThatNothingFitsIsToldWithTheReasons) {
  add_node("a", 16);
  const proto::JobEnd end = end_of(client_->submit(spec()));
  EXPECT_EQ(end.state(), proto::STATE_FAILED);
  EXPECT_TRUE(end.nothing_fits());
  EXPECT_THAT(end.message(), HasSubstr("a/0 needs"));
}

TEST_F(CoordinatorTest, RefusesWhatCannotRun) {
  add_node("a");
  EXPECT_EQ(error_of(spec({"b/0"})), "there is no device b/0; there are: a/0");
  auto none = spec();
  none.set_iterations(0);
  EXPECT_THAT(error_of(none), HasSubstr("a run of no iterations"));
  auto unsent = spec();
  unsent.set_model_hash(std::string(64, '0'));
  EXPECT_THAT(error_of(unsent), HasSubstr("the model was not sent"));
  auto unknown = spec();
  unknown.set_strategy("best");
  EXPECT_THAT(error_of(unknown), HasSubstr("unknown strategy \"best\"; there are ev-ps, ev-ar"));
}

TEST_F(CoordinatorTest, AJobThatWouldNotLeaveHeadroomDoesNotRun) {
  add_node("a");
  proto::JobSpec roomy = spec();
  roomy.set_headroom("50%");
  EXPECT_EQ(end_of(client_->submit(roomy)).state(), proto::STATE_DONE);
  roomy.set_headroom("1GiB");  // all of the device
  EXPECT_THAT(end_of(client_->submit(roomy)).message(), HasSubstr("of 1.00 GiB less 1.00 GiB of headroom"));
  roomy.set_headroom("100%");
  EXPECT_THAT(error_of(roomy), HasSubstr("from 0% to below 100%"));
}

TEST_F(CoordinatorTest, ANodeThatFallsSilentEndsItsJob) {
  add_node("a");
  hold_ = true;
  const auto job = client_->submit(spec());
  wait_for(job, proto::STATE_RUNNING);
  clock_.advance(Seconds{6});
  EXPECT_THAT(end_of(job).message(), HasSubstr("node a has not been heard of"));
  EXPECT_FALSE(client_->status().nodes(0).alive());
}

TEST_F(CoordinatorTest, APortInUseIsTold) {
  CoordinatorOptions options;
  options.state = folder_ / "other";
  options.listen = coordinator_->address();
  const std::string message = support::error_of([&] { Coordinator second(options, clock_, launcher_); });
  EXPECT_THAT(message, HasSubstr("cannot listen on " + coordinator_->address()));
}

TEST_F(CoordinatorTest, ACoordinatorThatIsNotThereIsTold) {
  const std::string message =
      support::error_of([&] { CoordinatorClient("127.0.0.1:1").wait_for_nodes(1, Seconds{0.3}); });
  EXPECT_THAT(message, HasSubstr("the coordinator at 127.0.0.1:1 does not answer: is it running?"));
}

}  // namespace
}  // namespace motley
