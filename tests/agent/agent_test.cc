#include "agent/agent.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <functional>

#include "agent/devices.h"
#include "agent/program.h"
#include "base/file.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An agent without coordinator, whose workers are shell scripts.
class AgentTest : public testing::Test {
 protected:
  void start(const std::string& worker) {
    ::signal(SIGPIPE, SIG_IGN);  // as all programs do: these workers do not read their task
    write_file_atomically(folder_ / "worker", "#!/bin/sh\n" + worker + "\n");
    ::chmod((folder_ / "worker").c_str(), 0755);
    proto::NodeDescription node = describe_node({.node = "big", .cpu_devices = 2});
    node.set_name("big");
    AgentOptions options;
    options.state = folder_ / "state";
    options.worker_program = (folder_ / "worker").string();
    agent_ = std::make_unique<Agent>(node, options);
    stub_ = proto::Agent::NewStub(make_channel(agent_->address()));
  }
  // What a worker's stream tells, and how the call ends.
  grpc::Status run(const proto::RunRequest& request, const std::function<void(const proto::WorkerEvent&)>& on_event) {
    grpc::ClientContext context;
    const auto reader = stub_->Run(&context, request);
    for (proto::WorkerEvent event; reader->Read(&event);) on_event(event);
    return reader->Finish();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<proto::Agent::Stub> stub_;
};

TEST_F(AgentTest, TellsItsDevices) {
  start("exit 0");
  grpc::ClientContext context;
  proto::NodeDescription node;
  ASSERT_TRUE(stub_->Describe(&context, {}, &node).ok());
  EXPECT_EQ(node.devices(1).name(), "big/1");
  EXPECT_EQ(node.devices(1).kind(), "cpu");
  EXPECT_GT(node.devices(0).memory(), 0);
  EXPECT_EQ(node.data_address(), "127.0.0.1");
}

TEST_F(AgentTest, PassesOnAWorkersLastWords) {
  start("echo one; echo two >&2; exit 3");
  std::vector<std::string> log;
  proto::Ended ended;
  const grpc::Status status = run({}, [&](const proto::WorkerEvent& event) {
    if (!event.log().empty()) log.push_back(event.log());
    if (event.has_ended()) ended = event.ended();
  });
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(log, ElementsAre("one", "two"));
  EXPECT_FALSE(ended.ok());
  EXPECT_EQ(ended.last_words(), "it ended by exit code 3; its last words: one\n  two");
}

TEST_F(AgentTest, RefusesWhatLeadsOutOfItsFolder) {
  start("exit 0");
  proto::RunRequest request;
  request.mutable_task()->set_job("../elsewhere");
  request.mutable_task()->mutable_train();
  EXPECT_THAT(run(request, [](const auto&) {}).error_message(), HasSubstr("cannot be a job's name"));
  proto::ReadFileRequest read;
  read.set_path((folder_ / "state").string() + "/jobs/../../worker");
  grpc::ClientContext context;
  const auto reader = stub_->ReadFile(&context, read);
  proto::FileChunk chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_THAT(reader->Finish().error_message(), HasSubstr("is not a file of a job"));
}

TEST_F(AgentTest, GivesAFileAndRemovesIt) {
  start("exit 0");
  std::filesystem::create_directories(folder_ / "state/jobs/job-1");
  write_file_atomically(folder_ / "state/jobs/job-1/part", "content");
  proto::ReadFileRequest read;
  read.set_path((folder_ / "state/jobs/job-1/part").string());
  read.set_remove(true);
  grpc::ClientContext context;
  const auto reader = stub_->ReadFile(&context, read);
  std::string content;
  for (proto::FileChunk chunk; reader->Read(&chunk);) content += chunk.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(content, "content");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "state/jobs/job-1"));
}

TEST(DevicesTest, ANodesNameIsAWord) {
  for (const char* name : {"", "a/b", "a b", "a,b", "a\n"}) {
    EXPECT_THAT(support::error_of([&] { describe_node({.node = name}); }, ErrorKind::kInvalidInput),
                HasSubstr("cannot be a node's name"));
  }
}

TEST(DevicesTest, AnEmulatedDeviceIsAsItsTextSays) {
  const auto node = describe_node({.node = "slow", .emulation = "speed=0.5,memory=2GiB"});
  ASSERT_EQ(node.devices_size(), 1);
  EXPECT_EQ(node.devices(0).kind(), "cpu@0.5");
  EXPECT_EQ(node.devices(0).threads(), 1);
  EXPECT_EQ(node.devices(0).memory(), std::int64_t{2} << 30);
}

// Options of a program from its command line and a file.
class OptionsTest : public testing::Test {
 protected:
  std::string parse(const std::string& file, std::vector<std::string> arguments = {}) {
    write_file_atomically(folder_ / "config.yaml", file);
    arguments.insert(arguments.begin(), {"test", "--config", (folder_ / "config.yaml").string()});
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    // A logger of each name may exist once.
    CLI::App app("", testing::UnitTest::GetInstance()->current_test_info()->name());
    app.add_option("--listen", listen_);
    app.add_option("--cpu-devices", devices_);
    return support::error_of([&] { parse_options(app, static_cast<int>(pointers.size()), pointers.data()); });
  }

  TemporaryFolder folder_;
  std::string listen_ = "default";
  int devices_ = 0;
};

TEST_F(OptionsTest, TheCommandLineGoesBeforeTheFile) {
  EXPECT_EQ(parse("listen: file\ncpu-devices: -1\n", {"--listen", "line"}), "no error");
  EXPECT_EQ(listen_, "line");
  EXPECT_EQ(devices_, -1);
}

TEST_F(OptionsTest, MistakesInTheFileAreToldWithTheirLine) {
  EXPECT_THAT(parse("listen: file\n\ncpu-devices: many\n"), HasSubstr("config.yaml:3: Could not convert"));
  EXPECT_THAT(parse("log-level: loud\n"), HasSubstr("config.yaml:1: --log-level: loud not in {"));
  EXPECT_THAT(parse("listne: file\n"), HasSubstr("did you mean listen?"));
  EXPECT_THAT(parse("listen: file\ncolour: red\n"), HasSubstr("config.yaml:2: there is no option 'colour'"));
  EXPECT_THAT(parse("listen: [a, b]\n"), HasSubstr("config.yaml:1: 'listen' wants one value"));
  EXPECT_THAT(parse("listen\n"), HasSubstr("config.yaml:1: an option and its value on each line are wanted"));
  EXPECT_THAT(parse("listen: [a\n"), HasSubstr("config.yaml:"));
}

}  // namespace
}  // namespace motley
