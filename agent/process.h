#pragma once

// Child processes that never outlive us. Each leads a process group of its own, and the kernel ends it when this
// process dies, however it dies (PR_SET_PDEATHSIG).

#include <signal.h>
#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/units.h"

namespace motley {

struct ExitStatus {
  int code = 0;
  int signal = 0;  // that ended it; 0: it exited by itself
  bool ok() const { return code == 0 && signal == 0; }
};
std::string to_string(const ExitStatus& status);  // "exit code 3", "signal 9 (Killed)"

class Child {
 public:
  // Ends the process group, waits for it.
  ~Child();

  pid_t pid() const { return pid_; }
  int input() const { return input_; }    // writes to its standard input
  int output() const { return output_; }  // reads its standard output and error, in one
  int events() const { return events_; }  // reads its descriptor 3
  void close_input();

  // Waits until the child has exited; safe from several threads.
  ExitStatus wait();
  bool wait_for(Seconds timeout);
  void signal(int number);  // to the whole group; harmless once it is gone
  // SIGTERM, and SIGKILL when it is still there after `patience`.
  void stop(Seconds patience);

 private:
  friend class Spawner;
  Child() = default;
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  int events_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool exited_ = false;
  ExitStatus status_;
  std::thread waiter_;
};

// Starts children from one thread that lives as long as it does: the kernel takes the death of the thread that forked
// for the death of the parent. Thread-safe. Children must be gone before it is.
class Spawner {
 public:
  Spawner();
  ~Spawner();

  // `arguments[0]` is the program's path. Throws Error(kUnavailable) naming it when it cannot be started.
  // `on_our_death` is the signal that it gets when this process dies: SIGTERM for one that has to clean up, and is sure
  // to end.
  std::unique_ptr<Child> start(const std::vector<std::string>& arguments, int on_our_death = SIGKILL);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool ending_ = false;
  std::thread thread_;
};

// The program NAME beside the running one ("motley-worker" for "motley-agent").
std::string sibling_program(const std::string& name);

}  // namespace motley
