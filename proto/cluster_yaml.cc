#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "proto/cluster.h"
#include "proto/name.h"
#include "proto/yaml_form.h"

namespace motley {
namespace {

class Reader : private YamlForm {
 public:
  Reader(const std::string& source, KindLookup lookup, const ClusterChanges& changes)
      : YamlForm(source), lookup_(lookup), changes_(changes) {
    cluster_.source = source;
  }

  Cluster read(const YAML::Node& root) {
    check_map(root, "a cluster", {"nodes", "switches", "links", "prices"});
    if (root["prices"]) read_prices(root["prices"]);
    std::vector<YAML::Node> rows = list(root["nodes"], root, "nodes");
    for (const YAML::Node& row : rows) read_nodes(row);
    check_changes(root);
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

  VertexIndex vertex_count() const {
    return static_cast<VertexIndex>(cluster_.devices.size() + cluster_.nodes.size() + cluster_.switches.size());
  }

  std::string new_name(const YAML::Node& node, const std::string& what) {
    std::string name = text(node, what);
    if (!is_name(name)) {
      std::replace_if(
          name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
      refuse(node, what + " is one word without spaces, commas and control characters, not \"" + name + "\"");
    }
    const auto [first, fresh] = lines_.emplace(name, node.Mark().line + 1);
    if (!fresh) {
      refuse(node, "the name " + name + " is taken since line " + std::to_string(first->second) + ": take another");
    }
    return name;
  }

  void read_prices(const YAML::Node& rows) {
    if (!rows.IsMap()) refuse(rows, "prices is written as {KIND: NUMBER, ...}: of one such device per hour");
    for (const auto& entry : rows) prices_[text(entry.first, "a kind")] = price(entry.second);
  }

  // A node, or as many like it as it counts.
  void read_nodes(const YAML::Node& row) {
    constexpr std::int64_t kMost = 65536;
    check_map(row, "a node", {"name", "count", "devices", "peer", "price"});
    required(row, "name", "this node");
    const std::string name = new_name(row["name"], "a node's name");
    try {
      check_node_name(name);
    } catch (const Error& error) {
      refuse(row["name"], error.what());
    }
    if (!row["devices"]) refuse(row, "node " + name + " has no devices: add devices: {kind: KIND, count: N}");
    note_kinds(row["devices"]);
    std::vector<std::string>& members = alike_[name];
    const auto changed = changes_.nodes.find(name);
    if (!row["count"] && changed == changes_.nodes.end()) {
      members = {name};
    } else {
      const std::int64_t n = changed != changes_.nodes.end() ? changed->second : count(row["count"], kMost);
      for (std::int64_t i = 0; i < n; ++i) members.push_back(name + "-" + std::to_string(i));
    }
    for (const std::string& member : members) {
      if (member != name && !lines_.emplace(member, row.Mark().line + 1).second) {
        refuse(row, "the name " + member + " is taken: take another than " + name);
      }
      if (changes_.lost.contains(member)) {
        lost_.insert(member);
      } else {
        read_node(row, name, member);
      }
    }
  }

  // Even of a node that is lost; what is wrong with them is told when they are read.
  void note_kinds(const YAML::Node& devices) {
    const auto note = [&](const YAML::Node& entry) {
      if (entry.IsMap() && entry["kind"] && entry["kind"].IsScalar()) kinds_.insert(entry["kind"].Scalar());
    };
    note(devices);
    for (std::size_t i = 0; devices.IsSequence() && i < devices.size(); ++i) note(devices[i]);
  }

  void read_node(const YAML::Node& row, const std::string& name, const std::string& member) {
    const auto node = static_cast<std::int32_t>(cluster_.nodes.size());
    cluster_.nodes.push_back({member, {}, row["price"] ? price(row["price"]) : 0});
    const Peer peer = read_peer(row["peer"]);
    standing_ = 0;
    if (row["devices"].IsSequence()) {
      if (changes_.devices.contains(name) && row["devices"].size() > 1) {
        refuse(row["devices"], "node " + name + " has devices of several entries: it cannot be said how many of which");
      }
      for (const YAML::Node& entry : row["devices"]) read_devices(entry, node, name, peer);
    } else {
      read_devices(row["devices"], node, name, peer);
    }
  }

  // What was to be changed must have been there.
  void check_changes(const YAML::Node& root) const {
    std::vector<std::string> nodes;
    for (const auto& [name, members] : alike_) nodes.push_back(name);
    const auto check_node = [&](const std::string& name) {
      if (!alike_.contains(name)) refuse(root, "there is no node " + name + did_you_mean(name, nodes) + " to change");
    };
    for (const auto& [name, n] : changes_.nodes) check_node(name);
    for (const auto& [name, n] : changes_.devices) check_node(name);
    for (const auto& [name, kind] : changes_.kinds) {
      if (!alike_.contains(name) && !kinds_.contains(name)) {
        std::vector<std::string> names(kinds_.begin(), kinds_.end());
        names.insert(names.end(), nodes.begin(), nodes.end());
        refuse(root, "there is no node or kind of device " + name + did_you_mean(name, names) + " to change");
      }
    }
    for (const std::string& name : changes_.lost) {
      if (lost_.contains(name)) continue;
      std::vector<std::string> names;
      for (const Node& node : cluster_.nodes) names.push_back(node.name);
      refuse(root, "there is no node " + name + did_you_mean(name, names) + " to lose");
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

  // `name`: the node's, as the file has it.
  void read_devices(const YAML::Node& row, std::int32_t node, const std::string& name, const Peer& peer) {
    constexpr std::int64_t kMost = 4096;
    check_map(row, "devices", {"kind", "count", "memory", "nvlink", "price"});
    std::string kind = required(row, "kind", "this device");
    bool replaced = false;
    for (const std::string& of : {name, std::string(kind)}) {
      const auto change = changes_.kinds.find(of);
      if (change == changes_.kinds.end() || replaced) continue;
      replaced = change->second != kind;
      kind = change->second;
    }
    std::int64_t n = row["count"] ? count(row["count"], kMost) : 1;
    if (changes_.devices.contains(name)) n = changes_.devices.at(name);
    const KindDefaults defaults = lookup_ != nullptr ? lookup_(kind) : KindDefaults{};
    Bytes memory = defaults.memory;
    if (row["memory"] && !replaced) memory = quantity(row["memory"], "memory", parse_bytes);
    if (memory.value <= 0) {
      const std::string meant = defaults.suggestion.empty() ? "" : " (did you mean " + defaults.suggestion + "?)";
      refuse(row["kind"], "the device catalogue has no memory size for the kind " + kind + meant +
                              ": take a kind of the catalogue, or add memory: SIZE");
    }
    const auto first = static_cast<DeviceIndex>(cluster_.devices.size());
    const std::optional<double> each = device_price(row, kind, node, replaced);
    for (std::int64_t i = 0; i < n; ++i) {
      cluster_.devices.push_back(
          {cluster_.nodes[node].name + "/" + std::to_string(standing_++), kind, node, memory, each});
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
    if (row["nvlink"] && !replaced) {
      const bool none = row["nvlink"].IsScalar() && row["nvlink"].Scalar() == "none";
      nvlink = none ? BytesPerSecond{} : quantity(row["nvlink"], "nvlink", parse_bytes_per_second);
    }
    if (nvlink.value > 0 && n > 1) join_peers(first, n, nvlink);
  }

  // Of one device. That of the whole node does not hold for another kind.
  std::optional<double> device_price(const YAML::Node& row, const std::string& kind, std::int32_t node,
                                     bool replaced) const {
    const auto of_kind = [&](const std::string& name) {
      const auto found = prices_.find(name);
      return found == prices_.end() ? std::nullopt : std::optional(found->second);
    };
    if (row["price"] && !replaced) return price(row["price"]);
    const bool whole = cluster_.nodes[node].price > 0 && !row["price"] && !of_kind(row["kind"].Scalar());
    if (whole) return replaced ? std::nullopt : std::optional(0.0);
    return of_kind(kind);
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
    add_between(row["between"], link);
  }

  // One link, or one for each node of an end that stands for several.
  void add_between(const YAML::Node& ends, const Link& link) {
    const std::vector<std::string> from = members(ends[0]);
    const std::vector<std::string> to = members(ends[1]);
    if (from.size() > 1 && to.size() > 1) {
      refuse(ends, "this link joins several nodes to several: let them meet in a switch");
    }
    const auto gone = [&](const std::string& end) { return lost_.contains(end.substr(0, end.find('/'))); };
    for (std::size_t i = 0; i < from.size() * to.size(); ++i) {
      const std::string& a = from[from.size() > 1 ? i : 0];
      const std::string& b = to[to.size() > 1 ? i : 0];
      if (gone(a) || gone(b)) continue;
      Link one = link;
      one.a = vertex(ends[0], a);
      one.b = vertex(ends[1], b);
      if (one.a == one.b) refuse(ends, "this link joins " + a + " to itself");
      if (!link.name.empty() && from.size() * to.size() > 1) one.name += "-" + std::to_string(i);
      cluster_.links.push_back(std::move(one));
    }
  }

  std::vector<std::string> members(const YAML::Node& end) const {
    const std::string name = text(end, "an end of a link");
    const auto several = alike_.find(name);
    return several == alike_.end() ? std::vector{name} : several->second;
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

  VertexIndex vertex(const YAML::Node& node, const std::string& name) const {
    const auto found = vertices_.find(name);
    if (found != vertices_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, index] : vertices_) names.push_back(known);
    refuse(node, "this link leads to nowhere: there is no node, switch or device " + name + did_you_mean(name, names));
  }

  KindLookup lookup_;
  const ClusterChanges& changes_;
  Cluster cluster_;
  std::map<std::string, int> lines_;                       // of nodes and switches
  std::map<std::string, std::vector<std::string>> alike_;  // by a node's name in the file: the nodes it stands for
  std::map<std::string, double> prices_;                   // by kind
  std::set<std::string> kinds_;                            // that the file has
  std::set<std::string> lost_;                             // nodes
  std::int64_t standing_ = 0;                              // devices of the node at hand
  std::set<std::string> link_names_;
  std::map<std::string, VertexIndex> vertices_;
  std::vector<Pending> pending_;
};

}  // namespace

Cluster parse_cluster(const std::string& yaml, const std::string& source, KindLookup lookup,
                      const ClusterChanges& changes) {
  YAML::Node root;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(yaml);
    if (documents.size() > 1) {
      throw Error(ErrorKind::kInvalidInput, source + ":" + std::to_string(documents[1].Mark().line + 1) +
                                                ": a second document begins before this line: remove the --- or ...");
    }
    if (!documents.empty()) root = documents[0];
  } catch (const YAML::ParserException& error) {
    throw Error(ErrorKind::kInvalidInput, source + ":" + std::to_string(error.mark.line + 1) +
                                              ": this is no YAML: " + error.msg + "; docs/cluster.md shows the form");
  }
  return Reader(source, lookup, changes).read(root);
}

Cluster read_cluster(const std::string& path, KindLookup lookup, const ClusterChanges& changes) {
  return parse_cluster(read_file(path), path, lookup, changes);
}

}  // namespace motley
