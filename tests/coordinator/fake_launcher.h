#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/launcher.h"

namespace motley {

// Workers that are scripts: `script` is run on a thread for each, tells events, and returns how the worker ended. It
// polls `stopped` where it waits.
class FakeLauncher : public Launcher {
 public:
  using Tell = std::function<void(const proto::WorkerEvent&)>;
  using Stopped = std::function<bool()>;
  using Script = std::function<proto::Ended(const proto::RunRequest&, const Tell&, const Stopped&)>;
  Script script;

  std::unique_ptr<LaunchedWorker> start(const proto::NodeDescription&, const proto::RunRequest& request,
                                        std::function<void(proto::WorkerEvent)> on_event) override {
    return std::make_unique<Worker>(script, request, std::move(on_event));
  }
  void take_file(const proto::NodeDescription&, const std::string&,
                 const std::function<void(std::string_view)>&) override {}

  static proto::Ended done() {
    proto::Ended ended;
    ended.set_ok(true);
    return ended;
  }
  static proto::Ended failed(const std::string& words, bool peer_failed = false) {
    proto::Ended ended;
    ended.set_last_words(words);
    ended.set_peer_failed(peer_failed);
    return ended;
  }
  static void wait(const Stopped& stopped) {
    while (!stopped()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  class Worker : public LaunchedWorker {
   public:
    Worker(const Script& script, const proto::RunRequest& request, std::function<void(proto::WorkerEvent)> on_event)
        : thread_([script, request, on_event](const std::stop_token& stop) {
            proto::WorkerEvent last;
            *last.mutable_ended() = script(request, on_event, [&] { return stop.stop_requested(); });
            on_event(last);
          }) {}
    void stop() override { thread_.request_stop(); }

   private:
    std::jthread thread_;
  };
};

}  // namespace motley
