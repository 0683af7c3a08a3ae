#include "agent/worker_process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "agent/framing.h"

namespace motley {
namespace {

constexpr std::size_t kLastLines = 8;
constexpr Seconds kPatience{2};  // to end by itself

}  // namespace

WorkerProcess::WorkerProcess(Spawner& spawner, const std::string& program, const proto::WorkerTask& task)
    : device_(task.device().name()), child_(spawner.start({program})) {
  event_reader_ = std::thread([this] { read_events(); });
  output_reader_ = std::thread([this] { read_output(); });
  finisher_ = std::thread([this] { finish(); });
  FrameWriter(child_->input()).write(task);
  child_->close_input();
}

WorkerProcess::~WorkerProcess() {
  child_->signal(SIGKILL);
  finisher_.join();
}

void WorkerProcess::read_events() {
  proto::WorkerEvent event;
  while (read_frame(child_->events(), event)) {
    event.set_device(device_);
    if (event.has_ended()) {
      own_end_ = event.ended();
    } else {
      push(event);
    }
  }
}

void WorkerProcess::read_output() {
  std::string text;
  char buffer[4096];
  const auto line = [&](const std::string& content) {
    last_lines_.push_back(content);
    if (last_lines_.size() > kLastLines) last_lines_.pop_front();
    proto::WorkerEvent event;
    event.set_device(device_);
    event.set_log(content);
    push(std::move(event));
  };
  while (true) {
    const ssize_t size = ::read(child_->output(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
    for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
      line(text.substr(0, end));
  }
  if (!text.empty()) line(text);
}

void WorkerProcess::finish() {
  const ExitStatus status = child_->wait();
  event_reader_.join();
  output_reader_.join();
  proto::WorkerEvent event;
  event.set_device(device_);
  proto::Ended& ended = *event.mutable_ended();
  if (own_end_) ended = *own_end_;
  ended.set_exit_code(status.code);
  ended.set_signal(status.signal);
  if (!own_end_) {
    std::string words = "it ended by " + to_string(status);
    if (last_lines_.empty()) words += " without a word";
    for (std::size_t i = 0; i < last_lines_.size(); ++i)
      words += (i == 0 ? "; its last words: " : "\n  ") + last_lines_[i];
    ended.set_ok(false);
    ended.set_last_words(words);
  } else if (!status.ok()) {
    ended.set_ok(false);
  }
  push(std::move(event));
}

void WorkerProcess::push(proto::WorkerEvent event) {
  {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
  }
  changed_.notify_all();
}

std::optional<proto::WorkerEvent> WorkerProcess::next(Seconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(timeout.value), [&] { return !events_.empty(); });
  if (events_.empty()) return std::nullopt;
  proto::WorkerEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void WorkerProcess::stop() { child_->stop(kPatience); }

}  // namespace motley
