#pragma once

// The nodes whose agents have registered, and whether they still speak. Thread-safe.

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/clock.h"
#include "proto/coordinator_service.pb.h"

namespace motley {

class NodeRegistry {
 public:
  // A node that has not been heard of for `patience` is dead. `clock` outlives the registry.
  NodeRegistry(const Clock& clock, Seconds patience) : clock_(clock), patience_(patience) {}

  // Returns the session that names this registration in heartbeats, and in what alive() tells. A node that registers
  // again replaces itself (its agent was restarted); two live agents of one name are Error(kInvalidInput), as are
  // devices whose names are not "NODE/N" or double.
  std::string add(const proto::NodeDescription& node);
  bool heartbeat(const std::string& node, const std::string& session);  // false: register again
  void remove(const std::string& node, const std::string& session);
  void lose(const std::string& node);  // its agent's connection broke: dead until it registers again

  std::vector<proto::NodeStatus> status() const;      // by name
  std::vector<proto::NodeDescription> alive() const;  // by name
  bool is_alive(const std::string& node) const;

 private:
  struct Entry {
    proto::NodeDescription description;
    Seconds last_heard;
    bool lost = false;
  };
  bool heard(const Entry& entry) const { return !entry.lost && clock_.now() - entry.last_heard <= patience_; }

  const Clock& clock_;
  const Seconds patience_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> nodes_;
  int sessions_ = 0;
};

}  // namespace motley
