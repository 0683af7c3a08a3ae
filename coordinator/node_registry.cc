#include "coordinator/node_registry.h"

#include <set>

#include "base/error.h"
#include "proto/name.h"

namespace motley {

std::string NodeRegistry::add(const proto::NodeDescription& node) {
  check_node_name(node.name());
  std::set<std::string> names;
  for (const auto& device : node.devices()) {
    if (!device.name().starts_with(node.name() + "/") || !names.insert(device.name()).second) {
      throw Error(ErrorKind::kInvalidInput, "node " + node.name() + " has a device named '" + device.name() +
                                                "': names are NODE/0, NODE/1, ..., each once");
    }
  }
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node.name());
  if (known != nodes_.end() && heard(known->second) && known->second.description.address() != node.address()) {
    throw Error(ErrorKind::kInvalidInput, "a node named " + node.name() + " is registered already, by the agent at " +
                                              known->second.description.address() + ": give this one another --name");
  }
  Entry& entry = nodes_[node.name()];
  entry = {node, clock_.now()};
  entry.description.set_session(node.name() + "#" + std::to_string(++sessions_));
  return entry.description.session();
}

bool NodeRegistry::heartbeat(const std::string& node, const std::string& session) {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.description.session() != session || known->second.lost) return false;
  known->second.last_heard = clock_.now();
  return true;
}

void NodeRegistry::remove(const std::string& node, const std::string& session) {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  if (known != nodes_.end() && known->second.description.session() == session) nodes_.erase(known);
}

void NodeRegistry::lose(const std::string& node) {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  if (known != nodes_.end()) known->second.lost = true;
}

std::vector<proto::NodeStatus> NodeRegistry::status() const {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::NodeStatus> result;
  for (const auto& [name, entry] : nodes_) {
    proto::NodeStatus& status = result.emplace_back();
    *status.mutable_node() = entry.description;
    status.set_alive(heard(entry));
    status.set_last_heard_seconds((clock_.now() - entry.last_heard).value);
  }
  return result;
}

std::vector<proto::NodeDescription> NodeRegistry::alive() const {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::NodeDescription> result;
  for (const auto& [name, entry] : nodes_) {
    if (heard(entry)) result.push_back(entry.description);
  }
  return result;
}

bool NodeRegistry::is_alive(const std::string& node) const {
  const std::scoped_lock lock(mutex_);
  const auto known = nodes_.find(node);
  return known != nodes_.end() && heard(known->second);
}

}  // namespace motley
