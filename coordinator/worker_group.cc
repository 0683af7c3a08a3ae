#include "coordinator/worker_group.h"

#include <algorithm>
#include <chrono>

namespace motley {
namespace {

constexpr std::chrono::milliseconds kPoll{500};     // for nodes that fell silent
constexpr std::chrono::milliseconds kMoment{1500};  // for peers' last words

}  // namespace

WorkerGroup::WorkerGroup(Launcher& launcher, NodeRegistry& nodes, std::stop_token stop)
    : launcher_(launcher), nodes_(nodes), stop_(std::move(stop)) {}

WorkerGroup::~WorkerGroup() {
  for (auto& [device, member] : members_) member.worker->stop();
  members_.clear();
}

void WorkerGroup::start(const proto::NodeDescription& node, const proto::RunRequest& request) {
  const std::string device = request.task().device().name();
  Member& member = members_[device];
  member.node = node;
  member.device = device;
  member.worker = launcher_.start(node, request, [this, device](proto::WorkerEvent event) {
    event.set_device(device);
    {
      const std::scoped_lock lock(mutex_);
      events_.push_back(std::move(event));
    }
    changed_.notify_all();
  });
}

std::vector<proto::WorkerEvent> WorkerGroup::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop_, kPoll, [&] { return !events_.empty(); });
  std::vector<proto::WorkerEvent> events(std::make_move_iterator(events_.begin()),
                                         std::make_move_iterator(events_.end()));
  events_.clear();
  return events;
}

bool WorkerGroup::all_ended() const {
  return std::all_of(members_.begin(), members_.end(), [](const auto& member) { return member.second.ended; });
}

void WorkerGroup::note_end(const proto::WorkerEvent& event, std::vector<Failure>& failures) {
  Member& member = members_.at(event.device());
  member.ended = true;
  if (event.ended().ok()) return;
  if (event.ended().agent_lost()) nodes_.lose(member.node.name());  // so that the next job goes without it
  failures.push_back(
      {"the worker of " + member.device + " on node " + member.node.name() + " failed: " + event.ended().last_words(),
       !event.ended().peer_failed()});
}

void WorkerGroup::run(const std::function<void(const proto::WorkerEvent&)>& on_event,
                      const std::function<bool()>& until) {
  std::vector<Failure> failures;
  while (!all_ended()) {
    for (const proto::WorkerEvent& event : wait()) {
      if (event.has_ended()) {
        note_end(event, failures);
      } else {
        on_event(event);
      }
    }
    if (stop_.stop_requested()) throw Cancelled();
    if (!failures.empty()) fail(std::move(failures));
    if (until()) return;
    for (const auto& [device, member] : members_) {
      if (member.ended || nodes_.is_alive(member.node.name())) continue;
      throw Error(
          ErrorKind::kUnavailable,
          "node " + member.node.name() + " has not been heard of for a while: the worker of " + device + " is lost");
    }
  }
}

void WorkerGroup::fail(std::vector<Failure> failures) {
  const auto certain = [](const Failure& failure) { return failure.certain; };
  const auto end = std::chrono::steady_clock::now() + kMoment;
  while (std::none_of(failures.begin(), failures.end(), certain) && !all_ended() &&
         std::chrono::steady_clock::now() < end) {
    for (const proto::WorkerEvent& event : wait()) {
      if (event.has_ended()) note_end(event, failures);
    }
  }
  const auto first = std::find_if(failures.begin(), failures.end(), certain);
  throw Error(ErrorKind::kUnavailable, first == failures.end() ? failures.front().message : first->message);
}

}  // namespace motley
