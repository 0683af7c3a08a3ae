#include "coordinator/local_cluster.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "coordinator/client.h"
#include "graph/serialize.h"
#include "graph/training_graph.h"
#include "runtime/safetensors.h"
#include "tests/support/error_of.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;

TEST(LocalAgentTest, ReadsItsText) {
  const LocalAgent agent = parse_local_agent("name=big,speed=0.5,threads=2,bandwidth=200Mbps,devices=3", "agent1");
  EXPECT_EQ(agent.name, "big");
  EXPECT_EQ(agent.emulation, "speed=0.5,bandwidth=200Mbps");
  EXPECT_EQ(agent.threads, 2);
  EXPECT_EQ(agent.cpu_devices, 3);
  EXPECT_EQ(parse_local_agent("", "agent1").name, "agent1");
  EXPECT_THAT(support::error_of([] { parse_local_agent("name=big,colour=red", ""); }, ErrorKind::kInvalidInput),
              AllOf(HasSubstr("agent big"), HasSubstr("colour=red"), HasSubstr("devices")));
  for (const char* name : {"name=", "name=a/b", "name=../up", "name=a b"}) {
    EXPECT_THAT(support::error_of([&] { parse_local_agent(name, ""); }), HasSubstr("cannot be a node's name")) << name;
  }
  EXPECT_THROW(parse_local_agent("devices=many", "agent1"), Error);
}

TEST(LocalAgentTest, EachHasItsOwnName) {
  const TemporaryFolder folder;
  LocalClusterOptions options;
  options.agents = {parse_local_agent("name=a", ""), parse_local_agent("name=a", "")};
  options.state = folder / "state";
  EXPECT_THAT(support::error_of([&] { LocalCluster cluster(options); }, ErrorKind::kInvalidInput),
              HasSubstr("two agents are named a"));
  EXPECT_FALSE(std::filesystem::exists(options.state));
}

// Real processes: a coordinator, and agents of two unequal devices.
class LocalClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* models = std::getenv("MOTLEY_TEST_MODELS");
    ASSERT_NE(models, nullptr) << "run by ctest";
    model_ = std::filesystem::path(models) / "gpt2.pt2";
    run_python(R"(import sys, numpy as np
ids = np.random.default_rng(1).integers(0, 64, (40, 16))
np.save(sys.argv[1] + "/input_ids.npy", ids)
np.save(sys.argv[1] + "/labels.npy", ids))",
               folder_.path().string());
  }
  void start() {
    LocalClusterOptions options;
    options.agents = {parse_local_agent("name=big", ""), parse_local_agent("name=small,speed=0.5,bandwidth=1Gbps", "")};
    options.state = folder_ / "state";
    options.programs = MOTLEY_PROGRAMS;
    cluster_ = std::make_unique<LocalCluster>(options);
    client_ = std::make_unique<CoordinatorClient>(cluster_->coordinator());
    for (const pid_t pid : cluster_->processes()) started_.push_back(pid);
  }
  std::int64_t submit(std::int64_t iterations) {
    proto::JobSpec spec;
    spec.set_kind(proto::JOB_RUN);
    spec.set_model_hash(client_->upload(model_));
    spec.set_model_name("gpt2");
    spec.set_batch(8);
    spec.set_graph(serialize(load_training_graph(model_.string(), {})));
    spec.set_strategy("cp-ar");
    spec.set_data(folder_.path().string());
    spec.set_iterations(iterations);
    spec.set_profile_seconds(3);
    spec.set_output((folder_ / "out").string());
    spec.add_timeline_iterations(2);
    return client_->submit(spec);
  }
  // The processes whose parent is `pid`.
  static std::vector<pid_t> children_of(pid_t pid) {
    std::vector<pid_t> children;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
      std::ifstream file(entry.path() / "children");
      for (pid_t child; file >> child;) children.push_back(child);
    }
    return children;
  }
  // Until a few iterations are done; remembers the workers.
  void train(std::int64_t job) {
    client_->watch(
        job, [&](const proto::JobEvent& event) { return !event.has_metrics() || event.metrics().iteration() < 3; });
    for (const pid_t agent : {cluster_->processes()[1], cluster_->processes()[2]}) {
      for (const pid_t worker : children_of(agent)) started_.push_back(worker);
    }
  }
  proto::JobEnd end_of(std::int64_t job) {
    return client_->watch(job, [](const auto&) { return true; });
  }
  bool all_gone() const {
    for (int i = 0; i < 500; ++i) {
      const auto alive = [](pid_t pid) { return ::kill(pid, 0) == 0; };
      if (std::none_of(started_.begin(), started_.end(), alive)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  static constexpr std::int64_t kForever = 1'000'000;
  TemporaryFolder folder_;
  std::filesystem::path model_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<CoordinatorClient> client_;
  std::vector<pid_t> started_;
};

TEST_F(LocalClusterTest, RunsAJobToItsEnd) {
  start();
  std::vector<double> losses;
  int timelines = 0;
  std::string weights;
  const proto::JobEnd end = client_->watch(submit(20), [&](const proto::JobEvent& event) {
    if (event.has_metrics()) losses.push_back(event.metrics().loss());
    if (event.has_timeline()) ++timelines;
    if (event.event_case() == proto::JobEvent::kSaved) weights = event.saved();
    return true;
  });
  ASSERT_EQ(end.state(), proto::STATE_DONE) << end.message();
  ASSERT_EQ(losses.size(), 20U);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(timelines, 1);
  EXPECT_NE(SafetensorsFile(weights).find("model.transformer.wpe.weight"), nullptr);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "out"), {}), 1);  // no parts are left
  cluster_.reset();
  EXPECT_TRUE(all_gone());
}

TEST_F(LocalClusterTest, AKilledWorkerEndsTheJob) {
  start();
  const auto job = submit(kForever);
  train(job);
  ASSERT_EQ(started_.size(), 5U);  // coordinator, agents, workers
  ::kill(started_.back(), SIGKILL);
  const proto::JobEnd end = end_of(job);
  EXPECT_EQ(end.state(), proto::STATE_FAILED);
  EXPECT_THAT(end.message(), HasSubstr("the worker of small/0 on node small failed: it ended by signal 9 (Killed)"));
}

TEST_F(LocalClusterTest, AKilledAgentEndsTheJobAndItsWorkers) {
  start();
  const auto job = submit(kForever);
  train(job);
  ::kill(cluster_->processes()[1], SIGKILL);
  const proto::JobEnd end = end_of(job);
  EXPECT_EQ(end.state(), proto::STATE_FAILED);
  EXPECT_THAT(end.message(), HasSubstr("the agent of node big"));
  client_.reset();
  cluster_.reset();
  EXPECT_TRUE(all_gone());
}

TEST_F(LocalClusterTest, CancelEndsTheWorkers) {
  start();
  const auto job = submit(kForever);
  train(job);
  client_->cancel(job);
  EXPECT_EQ(end_of(job).state(), proto::STATE_CANCELLED);
  started_.erase(started_.begin(), started_.begin() + 3);
  EXPECT_TRUE(all_gone());
}

TEST_F(LocalClusterTest, AnAgentThatCannotStartIsTold) {
  LocalClusterOptions options;
  options.agents = {parse_local_agent("name=far,address=192.0.2.1", "")};
  options.state = folder_ / "state";
  options.programs = MOTLEY_PROGRAMS;
  const std::string message = support::error_of([&] { LocalCluster cluster(options); });
  EXPECT_THAT(message, HasSubstr("the agent far ended before it could serve"));
  EXPECT_THAT(message, HasSubstr("cannot listen on 192.0.2.1:0"));
}

TEST(LocalAgentTest, AProgramThatIsMissingIsTold) {
  const TemporaryFolder folder;
  LocalClusterOptions options;
  options.agents = {parse_local_agent("name=a", "")};
  options.state = folder / "state";
  options.programs = folder.path();
  EXPECT_THAT(support::error_of([&] { LocalCluster cluster(options); }, ErrorKind::kUnavailable),
              HasSubstr((folder / "motley-coordinator").string() + ": cannot be started"));
}

}  // namespace
}  // namespace motley
