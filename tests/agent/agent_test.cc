#include "agent/agent.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <thread>

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

// Tells that it is done, and leaves a file behind, as a worker does that has saved its weights.
constexpr const char* kSaves = R"(echo content > "${0%worker}state/jobs/job-1.0/part"
printf '\004\0\0\0\132\002\010\001' >&3)";

TEST_F(AgentTest, AWorkersTaskLastsUntilWhatItSavedWasTaken) {
  start(kSaves);
  std::filesystem::create_directories(folder_ / "state/blobs");
  const std::string hash(64, '0');
  write_file_atomically(folder_ / "state/blobs" / hash, "model");
  proto::RunRequest request;
  request.set_model_hash(hash);
  request.mutable_task()->set_job("job-1");
  request.mutable_task()->mutable_train();
  const std::filesystem::path part = folder_ / "state/jobs/job-1.0/part";
  std::string content;
  std::thread taker([&] {
    while (!std::filesystem::exists(part)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    proto::ReadFileRequest read;
    read.set_path(part.string());
    read.set_remove(true);
    grpc::ClientContext context;
    const auto reader = stub_->ReadFile(&context, read);
    for (proto::FileChunk chunk; reader->Read(&chunk);) content += chunk.data();
    EXPECT_TRUE(reader->Finish().ok());
  });
  bool taken = false;
  EXPECT_TRUE(run(request, [&](const proto::WorkerEvent& event) {
                taken = event.has_ended() && event.ended().ok() && !std::filesystem::exists(part);
              }).ok());
  taker.join();
  EXPECT_TRUE(taken);
  EXPECT_EQ(content, "content\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state/jobs"));
}

TEST_F(AgentTest, WhatNobodyTakesIsGoneWithTheCaller) {
  start(kSaves);
  std::filesystem::create_directories(folder_ / "state/blobs");
  write_file_atomically(folder_ / "state/blobs" / std::string(64, '0'), "model");
  proto::RunRequest request;
  request.set_model_hash(std::string(64, '0'));
  request.mutable_task()->set_job("job-1");
  request.mutable_task()->mutable_train();
  grpc::ClientContext context;
  const auto reader = stub_->Run(&context, request);
  while (!std::filesystem::exists(folder_ / "state/jobs/job-1.0/part")) ::usleep(1000);
  context.TryCancel();
  reader->Finish();
  for (int i = 0; i < 500 && !std::filesystem::is_empty(folder_ / "state/jobs"); ++i) ::usleep(10'000);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state/jobs"));
}

TEST_F(AgentTest, ItsStateIsItsOwn) {
  std::filesystem::create_directories(folder_ / "state/jobs/job-7.0");  // of one that was killed
  start("exit 0");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "state/jobs"));
  EXPECT_THAT(support::error_of([&] {
                AgentOptions options;
                options.state = folder_ / "state";
                Agent second({}, options);
              }),
              HasSubstr("state: another process keeps its state there"));
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
