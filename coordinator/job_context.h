#pragma once

// What one job works with. The references outlive the job; everything they lead to is thread-safe.

#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/blobs.h"
#include "coordinator/cluster_of_nodes.h"
#include "coordinator/key_value.h"
#include "coordinator/launcher.h"
#include "coordinator/node_registry.h"
#include "graph/graph.h"
#include "profiler/store.h"

namespace motley {

// What this coordinator has already measured since the agents registered: a second job measures nothing again.
// Thread-safe.
class MeasuredOnce {
 public:
  std::optional<Fingerprint> fingerprint(const std::string& device, const std::string& what) const;
  void set_fingerprint(const std::string& device, const std::string& what, const Fingerprint& fingerprint);
  std::optional<std::vector<proto::LinkFigure>> links(const std::string& devices) const;
  void set_links(const std::string& devices, const std::vector<proto::LinkFigure>& links);

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Fingerprint> fingerprints_;
  std::map<std::string, std::vector<proto::LinkFigure>> links_;
};

struct JobContext {
  std::int64_t job = 0;
  proto::JobSpec spec;
  std::vector<UsedDevice> devices;
  Graph graph;  // of the spec

  Launcher& launcher;
  NodeRegistry& nodes;
  ProfileStore& profiles;
  MeasuredOnce& measured;
  KeyValueService& key_values;
  std::string address;  // of this coordinator, for workers
  std::stop_token stop;
  std::function<void(proto::JobEvent)> emit;

  void set_state(proto::JobState state) const {
    proto::JobEvent event;
    event.set_state(state);
    emit(std::move(event));
  }
  void tell_progress(std::int64_t done, std::int64_t total, const std::string& what) const {
    proto::JobEvent event;
    event.mutable_progress()->set_done(done);
    event.mutable_progress()->set_total(total);
    event.mutable_progress()->set_what(what);
    emit(std::move(event));
  }
  std::string name() const { return "job-" + std::to_string(job); }
};

// How the devices of a launch meet, as told to the one of that rank.
proto::Meeting meeting_of(const JobContext& context, const std::vector<UsedDevice>& ranks, std::size_t rank,
                          const std::string& prefix, double timeout_seconds);

}  // namespace motley
