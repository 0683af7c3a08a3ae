#include "agent/process.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/error.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

class ProcessTest : public testing::Test {
 protected:
  std::unique_ptr<Child> shell(const std::string& script) { return spawner_.start({"/bin/sh", "-c", script}); }
  static std::string read_all(int file) {
    std::string text;
    char buffer[256];
    for (ssize_t size; (size = ::read(file, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(size));
    return text;
  }
  static bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }
  // Waits until the process is gone; a zombie that init has not reaped yet counts as gone only when it is reaped.
  static bool gone(pid_t pid) {
    for (int i = 0; i < 500 && alive(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return !alive(pid);
  }

  Spawner spawner_;
};

TEST_F(ProcessTest, TellsOutputEventsAndExitCode) {
  const auto child = shell("echo out; echo err >&2; echo event >&3; exit 3");
  EXPECT_EQ(read_all(child->output()), "out\nerr\n");
  EXPECT_EQ(read_all(child->events()), "event\n");
  EXPECT_EQ(to_string(child->wait()), "exit code 3");
}

TEST_F(ProcessTest, ReadsItsInput) {
  const auto child = shell("cat");
  ASSERT_EQ(::write(child->input(), "hello", 5), 5);
  child->close_input();
  EXPECT_EQ(read_all(child->output()), "hello");
  EXPECT_TRUE(child->wait().ok());
}

TEST_F(ProcessTest, TellsTheSignal) {
  const auto child = shell("kill -9 $$");
  EXPECT_EQ(to_string(child->wait()), "signal 9 (Killed)");
}

TEST_F(ProcessTest, StopEndsWhatIgnoresSigterm) {
  const auto child = shell("trap '' TERM; echo ready; while true; do sleep 0.05; done");
  char byte = 0;
  ASSERT_EQ(::read(child->output(), &byte, 1), 1);
  child->stop(Seconds{0.1});
  EXPECT_EQ(child->wait().signal, SIGKILL);
}

TEST_F(ProcessTest, TheWholeGroupEnds) {
  auto child = shell("sleep 100 & echo $!; wait");
  char buffer[32] = {};
  ASSERT_GT(::read(child->output(), buffer, sizeof buffer - 1), 0);
  const pid_t grandchild = std::stoi(buffer);
  EXPECT_TRUE(alive(grandchild));
  child.reset();
  EXPECT_TRUE(gone(grandchild));
}

TEST_F(ProcessTest, AChildDiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    Spawner spawner;
    const auto killed = spawner.start({"/bin/sleep", "100"});
    const auto asked = spawner.start(
        {"/bin/sh", "-c",
         "trap 'echo cleaned >&'" + std::to_string(ends[1]) + "'; exit' TERM; while true; do sleep 0.01; done"},
        SIGTERM);
    const std::array<pid_t, 2> pids{killed->pid(), asked->pid()};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for the trap
    [[maybe_unused]] const ssize_t told = ::write(ends[1], pids.data(), sizeof pids);
    ::pause();
  }
  ::close(ends[1]);
  std::array<pid_t, 2> children{};
  ASSERT_EQ(::read(ends[0], children.data(), sizeof children), static_cast<ssize_t>(sizeof children));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  for (const pid_t child : children) EXPECT_TRUE(gone(child));
  EXPECT_EQ(read_all(ends[0]), "cleaned\n");
}

TEST_F(ProcessTest, NamesAProgramThatIsNotThere) {
  const std::string message = support::error_of([&] { spawner_.start({"/nowhere/program"}); });
  EXPECT_THAT(message, testing::HasSubstr("/nowhere/program: cannot be started (No such file"));
}

}  // namespace
}  // namespace motley
