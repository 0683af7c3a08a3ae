#include "cli/interrupt.h"

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace motley {
namespace {

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

// Blocked in this thread and all that it starts later, the signals wait for the one thread that asks for them.
Interrupt::Interrupt() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  waiter_ = std::jthread([this, signals](const std::stop_token& end) {
    while (!end.stop_requested()) {
      const timespec pause{0, 100'000'000};
      if (sigtimedwait(&signals, nullptr, &pause) < 0) continue;
      source_.request_stop();
      pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // the next one ends the process
    }
  });
}

Interrupt::~Interrupt() {
  waiter_.request_stop();
  waiter_.join();
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace motley
