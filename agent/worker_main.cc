// motley-worker: runs one task on one device, and ends. An agent starts it (proto/worker.proto).

#include <signal.h>
#include <unistd.h>

#include <iostream>

#include "agent/framing.h"
#include "agent/worker.h"
#include "base/error.h"

int main() {
  using namespace motley;
  ::signal(SIGPIPE, SIG_IGN);
  proto::WorkerTask task;
  if (::isatty(STDIN_FILENO) == 1 || !read_frame(STDIN_FILENO, task)) {
    std::cerr << "motley-worker is started by motley-agent, which tells it its task\n";
    return 2;
  }
  FrameWriter events(3);
  proto::WorkerEvent last;
  try {
    run_worker(task, [&](const proto::WorkerEvent& event) { events.write(event); });
    last.mutable_ended()->set_ok(true);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    last.mutable_ended()->set_last_words(error.what());
    last.mutable_ended()->set_peer_failed(known != nullptr && known->kind() == ErrorKind::kUnavailable);
  }
  events.write(last);
  // Threads of LibTorch and Gloo may still be at work: nothing of this process is wanted any more.
  std::cout.flush();
  ::_exit(last.ended().ok() ? 0 : 1);
}
