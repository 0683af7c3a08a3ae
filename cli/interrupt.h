#pragma once

// Ctrl-C (and SIGTERM) as a stop token. One at a time per process: signal handlers are the process's own.

#include <stop_token>
#include <thread>

namespace motley {

class Interrupt {
 public:
  Interrupt();   // from now on the first signal requests a stop; a second one ends the process as usual
  ~Interrupt();  // the signals do what they did before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread waiter_;
};

}  // namespace motley
