#include "agent/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <utility>

#include "base/error.h"

extern char** environ;

namespace motley {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorKind::kUnavailable, std::string("no pipe for a child process (") + std::strerror(errno) + ")");
    }
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close(read);
    close(write);
  }
  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

// Between fork and exec only what is safe in a signal handler may be called.
[[noreturn]] void become(char* const* arguments, pid_t parent, int on_parents_death, int input, int output, int events,
                         int failure) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, on_parents_death);
  if (::getppid() != parent) ::_exit(127);  // it died before we asked
  // Above 3 first, so that none of them is overwritten before it is used.
  input = ::fcntl(input, F_DUPFD_CLOEXEC, 10);
  output = ::fcntl(output, F_DUPFD_CLOEXEC, 10);
  events = ::fcntl(events, F_DUPFD_CLOEXEC, 10);
  failure = ::fcntl(failure, F_DUPFD_CLOEXEC, 10);
  ::dup2(input, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::dup2(events, 3);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execve(arguments[0], arguments, environ);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::string to_string(const ExitStatus& status) {
  if (status.signal != 0) {
    return "signal " + std::to_string(status.signal) + " (" + ::strsignal(status.signal) + ")";
  }
  return "exit code " + std::to_string(status.code);
}

Child::~Child() {
  signal(SIGKILL);
  if (waiter_.joinable()) waiter_.join();
  for (int* end : {&input_, &output_, &events_}) Pipe::close(*end);
}

void Child::close_input() { Pipe::close(input_); }

ExitStatus Child::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return exited_; });
  return status_;
}

bool Child::wait_for(Seconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(timeout.value), [&] { return exited_; });
}

void Child::signal(int number) {
  const std::scoped_lock lock(mutex_);
  if (!exited_) ::kill(-pid_, number);
}

void Child::stop(Seconds patience) {
  signal(SIGTERM);
  if (!wait_for(patience)) signal(SIGKILL);
  wait();
}

Spawner::Spawner() : thread_([this] { run(); }) {}

Spawner::~Spawner() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Spawner::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || work_; });
    if (!work_) return;
    work_();
    work_ = nullptr;
    changed_.notify_all();
  }
}

std::unique_ptr<Child> Spawner::start(const std::vector<std::string>& arguments, int on_our_death) {
  std::vector<std::string> argument_texts = arguments;
  const auto argument_pointers = pointers(argument_texts);

  Pipe input;
  Pipe output;
  Pipe events;
  Pipe failure;
  pid_t pid = -1;
  std::promise<void> forked;
  const pid_t parent = ::getpid();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !work_; });
    work_ = [&] {
      pid = ::fork();
      if (pid == 0) {
        become(argument_pointers.data(), parent, on_our_death, input.read, output.write, events.write, failure.write);
      }
      forked.set_value();
    };
  }
  changed_.notify_all();
  forked.get_future().wait();
  if (pid < 0) throw Error(ErrorKind::kUnavailable, arguments[0] + ": cannot start a process");
  ::setpgid(pid, pid);  // whichever of us is first

  Pipe::close(failure.write);
  int error = 0;
  ssize_t told = 0;
  do {
    told = ::read(failure.read, &error, sizeof error);
  } while (told < 0 && errno == EINTR);
  if (told == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    throw Error(ErrorKind::kUnavailable, arguments[0] + ": cannot be started (" + std::strerror(error) + ")");
  }

  std::unique_ptr<Child> child(new Child);
  child->pid_ = pid;
  child->input_ = std::exchange(input.write, -1);
  child->output_ = std::exchange(output.read, -1);
  child->events_ = std::exchange(events.read, -1);
  child->waiter_ = std::thread([child = child.get()] {
    // Not reaped before the state is told, so that its number cannot be another process's when signal() uses it.
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(child->pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    const std::scoped_lock lock(child->mutex_);
    ::kill(-child->pid_, SIGKILL);  // what it started
    ::waitpid(child->pid_, nullptr, 0);
    child->exited_ = true;
    if (info.si_code == CLD_EXITED) {
      child->status_.code = info.si_status;
    } else {
      child->status_.signal = info.si_status;
    }
    child->changed_.notify_all();
  });
  return child;
}

std::string sibling_program(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace motley
