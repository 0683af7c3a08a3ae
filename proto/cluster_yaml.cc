#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "proto/cluster.h"

namespace motley {
namespace {

class Reader {
 public:
  Reader(const std::string& source, KindLookup lookup) : lookup_(lookup) { cluster_.source = source; }

  Cluster read(const YAML::Node& root) {
    check_map(root, "a cluster", {"nodes", "switches", "links"});
    std::vector<YAML::Node> rows = list(root["nodes"], root, "nodes");
    for (const YAML::Node& row : rows) read_node(row);
    if (root["switches"]) {
      for (const YAML::Node& name : list(root["switches"], root, "switches")) {
        cluster_.switches.push_back(new_name(name, "a switch's name"));
      }
    }
    // A vertex's number is known only now, when all devices, nodes and switches are.
    for (const Pending& link : pending_) add_link(link);
    for (VertexIndex v = 0; v < vertex_count(); ++v) vertices_[cluster_.vertex_name(v)] = v;
    if (root["links"]) {
      for (const YAML::Node& row : list(root["links"], root, "links")) read_link(row);
    }
    cluster_.finish();
    return std::move(cluster_);
  }

 private:
  // A link of a node's inside: a device to its host, or to the node's crossbar, or to another device.
  struct Pending {
    DeviceIndex device;
    std::optional<DeviceIndex> peer;
    std::int32_t crossbar = kNoCrossbar;  // index of the switch
    BytesPerSecond bandwidth;
    Seconds latency;
  };
  static constexpr std::int32_t kNoCrossbar = -1;

  [[noreturn]] void refuse(const YAML::Node& at, const std::string& message) const {
    const int line = at.IsDefined() ? at.Mark().line : -1;
    throw Error(ErrorKind::kInvalidInput,
                cluster_.source + (line >= 0 ? ":" + std::to_string(line + 1) : "") + ": " + message);
  }

  VertexIndex vertex_count() const {
    return static_cast<VertexIndex>(cluster_.devices.size() + cluster_.nodes.size() + cluster_.switches.size());
  }

  void check_map(const YAML::Node& node, const std::string& what, const std::vector<std::string>& keys) const {
    std::string known;
    for (const std::string& key : keys) known += " " + key;
    if (!node.IsMap()) refuse(node, what + " is written as KEY: VALUE with the keys" + known);
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string key = text(entry.first, "a key");
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        refuse(entry.first, std::string(what).append(" has no key ").append(key).append(did_you_mean(key, keys)) +
                                "; its keys are" + known);
      }
      if (!seen.insert(key).second) refuse(entry.first, "the key " + key + " stands twice: remove one of the two");
    }
  }

  std::vector<YAML::Node> list(const YAML::Node& node, const YAML::Node& parent, const std::string& what) const {
    if (!node) refuse(parent, what + " is missing: write " + what + ": and a list");
    if (!node.IsSequence()) refuse(node, what + " is a list: write one - for each entry");
    return {node.begin(), node.end()};
  }

  std::string text(const YAML::Node& node, const std::string& what) const {
    if (!node.IsScalar()) refuse(node, what + " is one word");
    return node.Scalar();
  }

  std::string required(const YAML::Node& map, const std::string& key, const std::string& what) const {
    if (!map[key]) refuse(map, what + " has no " + key + ": add " + key + ": and its value");
    return text(map[key], key);
  }

  std::string new_name(const YAML::Node& node, const std::string& what) {
    std::string name = text(node, what);
    if (name.empty() || name.find_first_of(" \t\n,") != std::string::npos) {
      refuse(node, what + " is one word without spaces, not \"" + name + "\"");
    }
    const auto [first, fresh] = lines_.emplace(name, node.Mark().line + 1);
    if (!fresh) {
      refuse(node, "the name " + name + " is taken since line " + std::to_string(first->second) + ": take another");
    }
    return name;
  }

  // A quantity with a unit, above 0 unless `zero` is allowed.
  template <class T>
  T quantity(const YAML::Node& node, const std::string& key, T (*parse)(std::string_view), bool zero = false) const {
    T value;
    try {
      value = parse(text(node, key));
    } catch (const Error& error) {
      refuse(node, key + ": " + error.what());
    }
    if (!zero && !(value.value > 0)) refuse(node, key + " must be above 0");
    return value;
  }

  std::int64_t count(const YAML::Node& node) const {
    constexpr std::int64_t kMost = 4096;
    std::int64_t number = 0;
    if (!YAML::convert<std::int64_t>::decode(node, number) || number < 1 || number > kMost) {
      refuse(node, "count is a whole number from 1 to " + std::to_string(kMost) + ", not \"" +
                       (node.IsScalar() ? node.Scalar() : "a list") + "\"");
    }
    return number;
  }

  void read_node(const YAML::Node& row) {
    check_map(row, "a node", {"name", "devices", "peer"});
    required(row, "name", "this node");
    const auto node = static_cast<std::int32_t>(cluster_.nodes.size());
    cluster_.nodes.push_back({new_name(row["name"], "a node's name"), {}});
    const std::string& name = cluster_.nodes.back().name;
    if (name.find('/') != std::string::npos) {
      refuse(row["name"],
             "a node's name has no \"/\": that is for its devices, as in " + name.substr(0, name.find('/')) + "/0");
    }
    if (!row["devices"]) refuse(row, "node " + name + " has no devices: add devices: {kind: KIND, count: N}");
    const Peer peer = read_peer(row["peer"]);
    if (row["devices"].IsSequence()) {
      for (const YAML::Node& entry : row["devices"]) read_devices(entry, node, peer);
    } else {
      read_devices(row["devices"], node, peer);
    }
  }

  // The host links of a node's devices: as the catalogue has them, none, or as written.
  struct Peer {
    bool none = false;
    std::optional<BytesPerSecond> bandwidth;
    std::optional<Seconds> latency;
  };

  Peer read_peer(const YAML::Node& node) const {
    Peer peer;
    if (!node) return peer;
    peer.none = node.IsScalar() && node.Scalar() == "none";
    if (peer.none) return peer;
    check_map(node, "peer", {"bandwidth", "latency"});
    if (node["bandwidth"]) peer.bandwidth = quantity(node["bandwidth"], "bandwidth", parse_bytes_per_second);
    if (node["latency"]) peer.latency = quantity(node["latency"], "latency", parse_seconds, true);
    return peer;
  }

  void read_devices(const YAML::Node& row, std::int32_t node, const Peer& peer) {
    check_map(row, "devices", {"kind", "count", "memory", "nvlink"});
    const std::string kind = required(row, "kind", "this device");
    const std::int64_t n = row["count"] ? count(row["count"]) : 1;
    const KindDefaults defaults = lookup_ != nullptr ? lookup_(kind) : KindDefaults{};
    Bytes memory = defaults.memory;
    if (row["memory"]) memory = quantity(row["memory"], "memory", parse_bytes);
    if (memory.value <= 0) {
      const std::string meant = defaults.suggestion.empty() ? "" : " (did you mean " + defaults.suggestion + "?)";
      refuse(row["kind"], "the device catalogue has no memory size for the kind " + kind + meant +
                              ": take a kind of the catalogue, or add memory: SIZE");
    }
    const auto first = static_cast<DeviceIndex>(cluster_.devices.size());
    std::int64_t standing = 0;
    for (const Device& device : cluster_.devices) standing += device.node == node ? 1 : 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::string name = cluster_.nodes[node].name + "/" + std::to_string(standing + i);
      cluster_.devices.push_back({name, kind, node, memory});
    }
    if (!peer.none) {
      const BytesPerSecond bandwidth = peer.bandwidth.value_or(defaults.host_bandwidth);
      if (bandwidth.value <= 0) {
        refuse(row["kind"], "the device catalogue has no host link for the kind " + kind +
                                ": add peer: {bandwidth: RATE, latency: TIME} to node " + cluster_.nodes[node].name);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        pending_.push_back({static_cast<DeviceIndex>(first + i), std::nullopt, kNoCrossbar, bandwidth,
                            peer.latency.value_or(defaults.host_latency)});
      }
    }
    BytesPerSecond nvlink = defaults.nvlink;
    if (row["nvlink"]) {
      const bool none = row["nvlink"].IsScalar() && row["nvlink"].Scalar() == "none";
      nvlink = none ? BytesPerSecond{} : quantity(row["nvlink"], "nvlink", parse_bytes_per_second);
    }
    if (nvlink.value > 0 && n > 1) join_peers(first, n, nvlink);
  }

  // Two devices get a link of their own; more meet in a crossbar, so that what one of them sends to several others
  // shares the rate at which it can send.
  void join_peers(DeviceIndex first, std::int64_t n, BytesPerSecond bandwidth) {
    if (n == 2) {
      pending_.push_back({first, first + 1, kNoCrossbar, bandwidth, kNvlinkLatency});
      return;
    }
    const auto crossbar = static_cast<std::int32_t>(cluster_.switches.size());
    cluster_.switches.push_back(cluster_.devices[first].name + "-nvlink");
    for (std::int64_t i = 0; i < n; ++i) {
      pending_.push_back({static_cast<DeviceIndex>(first + i), std::nullopt, crossbar, bandwidth, kNvlinkLatency / 2});
    }
  }

  void add_link(const Pending& link) {
    VertexIndex end = cluster_.vertex_of_node(cluster_.devices[link.device].node);
    if (link.peer) end = *link.peer;
    if (link.crossbar != kNoCrossbar) end = cluster_.vertex_of_switch(link.crossbar);
    cluster_.links.push_back({"", link.device, end, link.bandwidth, link.latency, true});
  }

  void read_link(const YAML::Node& row) {
    check_map(row, "a link", {"between", "bandwidth", "latency", "duplex", "name", "curve"});
    if (!row["between"] || !row["between"].IsSequence() || row["between"].size() != 2) {
      refuse(row, "a link says between: [A, B], the two nodes, switches or devices that it joins");
    }
    Link link;
    link.a = vertex(row["between"][0]);
    link.b = vertex(row["between"][1]);
    if (link.a == link.b) refuse(row["between"], "this link joins " + cluster_.vertex_name(link.a) + " to itself");
    required(row, "bandwidth", "this link");
    required(row, "latency", "this link");
    link.bandwidth = quantity(row["bandwidth"], "bandwidth", parse_bytes_per_second);
    link.latency = quantity(row["latency"], "latency", parse_seconds, true);
    if (row["duplex"]) {
      const std::string duplex = text(row["duplex"], "duplex");
      if (duplex != "half" && duplex != "full") refuse(row["duplex"], "duplex is half or full, not " + duplex);
      link.full_duplex = duplex == "full";
    }
    if (row["name"]) {
      link.name = text(row["name"], "a link's name");
      if (!link_names_.insert(link.name).second) {
        refuse(row["name"], "the link name " + link.name + " stands twice: rename one of the two");
      }
    }
    if (row["curve"]) read_curve(row["curve"], link);
    cluster_.links.push_back(link);
  }

  void read_curve(const YAML::Node& rows, Link& link) const {
    if (!rows.IsMap()) refuse(rows, "curve is written as {SIZE: RATE, ...}: what a message of that size gets");
    for (const auto& entry : rows) {
      const RatePoint point{quantity(entry.first, "a size", parse_bytes),
                            quantity(entry.second, "a rate", parse_bytes_per_second)};
      if (!link.curve.empty() && point.bytes <= link.curve.back().bytes) {
        refuse(entry.first, "the sizes of a curve ascend, but " + entry.first.Scalar() + " follows " +
                                to_string(link.curve.back().bytes));
      }
      if (point.rate > link.bandwidth) {
        refuse(entry.second, "the rate " + entry.second.Scalar() + " is above the link's bandwidth, " +
                                 to_string(link.bandwidth) + ": raise the bandwidth or lower the rate");
      }
      link.curve.push_back(point);
    }
  }

  VertexIndex vertex(const YAML::Node& node) const {
    const std::string name = text(node, "an end of a link");
    const auto found = vertices_.find(name);
    if (found != vertices_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, index] : vertices_) names.push_back(known);
    refuse(node, "this link leads to nowhere: there is no node, switch or device " + name + did_you_mean(name, names));
  }

  KindLookup lookup_;
  Cluster cluster_;
  std::map<std::string, int> lines_;  // of nodes and switches
  std::set<std::string> link_names_;
  std::map<std::string, VertexIndex> vertices_;
  std::vector<Pending> pending_;
};

// Exact and still readable: base units, the fewest digits that read back as the same number.
std::string exact(double value, const char* unit) {
  char buffer[64];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  return buffer + std::string(unit);
}

}  // namespace

Cluster parse_cluster(const std::string& yaml, const std::string& source, KindLookup lookup) {
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::ParserException& error) {
    throw Error(ErrorKind::kInvalidInput, source + ":" + std::to_string(error.mark.line + 1) +
                                              ": this is no YAML: " + error.msg + "; docs/cluster.md shows the form");
  }
  return Reader(source, lookup).read(root);
}

Cluster read_cluster(const std::string& path, KindLookup lookup) {
  return parse_cluster(read_file(path), path, lookup);
}

std::string to_yaml(const Cluster& cluster) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "nodes" << YAML::Value << YAML::BeginSeq;
  for (const Node& node : cluster.nodes) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << node.name;
    out << YAML::Key << "devices" << YAML::Value << YAML::BeginSeq;
    for (const DeviceIndex index : node.devices) {
      const Device& device = cluster.devices[index];
      out << YAML::Flow << YAML::BeginMap << YAML::Key << "kind" << YAML::Value << device.kind;
      out << YAML::Key << "memory" << YAML::Value << std::to_string(device.memory.value) + "B";
      out << YAML::Key << "nvlink" << YAML::Value << "none" << YAML::EndMap;
    }
    out << YAML::EndSeq << YAML::Key << "peer" << YAML::Value << "none" << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "switches" << YAML::Value << YAML::Flow << cluster.switches;
  out << YAML::Key << "links" << YAML::Value << YAML::BeginSeq;
  for (const Link& link : cluster.links) {
    out << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value << link.name;
    out << YAML::Key << "between" << YAML::Value << YAML::Flow
        << std::vector<std::string>{cluster.vertex_name(link.a), cluster.vertex_name(link.b)};
    out << YAML::Key << "bandwidth" << YAML::Value << exact(link.bandwidth.value, "B/s");
    out << YAML::Key << "latency" << YAML::Value << exact(link.latency.value, "s");
    out << YAML::Key << "duplex" << YAML::Value << (link.full_duplex ? "full" : "half");
    if (!link.curve.empty()) {
      out << YAML::Key << "curve" << YAML::Value << YAML::Flow << YAML::BeginMap;
      for (const RatePoint& point : link.curve) {
        out << YAML::Key << std::to_string(point.bytes.value) + "B" << YAML::Value << exact(point.rate.value, "B/s");
      }
      out << YAML::EndMap;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return out.c_str() + std::string("\n");
}

}  // namespace motley
