#pragma once

// The machines: nodes with devices, switches, and the links that join them. Plain values; safe to share once built.
//
// Vertices are devices, nodes (a node's vertex is its host: PCIe or NVLink bridge, memory, NIC) and switches. A link
// joins two vertices. A full-duplex link is two channels that do not disturb each other, a half-duplex link one channel
// for both ways. Whatever crosses a channel shares it.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "proto/headroom.h"
#include "proto/routes.h"

namespace motley {

struct Device {
  std::string name;  // "NODE/N", unique: "big/0"
  std::string kind;  // a name of the device catalogue ("V100-16GB"), "cpu", or the user's own word
  std::int32_t node = 0;
  Bytes memory;  // what a job may use: the card's size less what others hold
  // Per hour, in whatever currency the file is; 0: part of its node's price; nothing: unknown.
  std::optional<double> price{};

  Headroom headroom{};  // of the memory: a job fits that leaves so much free. No part of the cluster file

  Bytes usable() const { return memory - headroom.of(memory); }
  bool is_cpu() const { return kind == "cpu" || kind.starts_with("cpu@"); }  // a CPU device of motley's own
};

struct Node {
  std::string name;
  std::vector<DeviceIndex> devices;
  double price = 0;  // per hour, beside its devices'
};

// What a link yields to one message alone, by its size; between two points, linear in the size's logarithm.
struct RatePoint {
  Bytes bytes;
  BytesPerSecond rate;
};

struct Link {
  std::string name;  // "big-tor" unless the file names it; errors and bottlenecks are told by it
  VertexIndex a = 0;
  VertexIndex b = 0;
  BytesPerSecond bandwidth;  // one way
  Seconds latency;
  bool full_duplex = true;
  std::vector<RatePoint> curve{};  // ascending sizes, no rate above the bandwidth; none: the bandwidth at any size
};

// Well-formed machines on which no job can run: there are no devices, or no path joins them.
class UnusableCluster : public Error {
 public:
  explicit UnusableCluster(const std::string& message) : Error(ErrorKind::kInvalidInput, message) {}
};

class Cluster {
 public:
  std::vector<Device> devices;
  std::vector<Node> nodes;
  std::vector<std::string> switches;
  std::vector<Link> links;
  std::string source;  // the file or "agents", for messages

  VertexIndex vertex_of_node(std::int32_t node) const;
  VertexIndex vertex_of_switch(std::int32_t index) const;
  std::string vertex_name(VertexIndex vertex) const;
  DeviceIndex device_named(const std::string& name) const;  // throws Error(kNotFound) with the names there are
  ChannelIndex channel_count() const { return static_cast<ChannelIndex>(2 * links.size()); }
  BytesPerSecond bandwidth(ChannelIndex channel) const { return links[channel / 2].bandwidth; }

  // Fills what follows from the rest (Node::devices, empty names of devices and links), checks, and prepares routes:
  // fewest links, then highest bandwidth (among switches with several ways: theirs, even where an end's own link is
  // narrower), then lowest link index; never through a third device, since devices do not forward. Throws
  // Error(kInvalidInput) for duplicate names, links to nowhere and figures that are not positive (a latency may be 0),
  // UnusableCluster for no devices and for devices that no path joins.
  void finish();

  // Channels from `from` to `to` in order, put together on each call; empty when they are the same device.
  std::vector<ChannelIndex> route(DeviceIndex from, DeviceIndex to) const { return routes_.between(*this, from, to); }
  Seconds latency(DeviceIndex from, DeviceIndex to) const;           // the sum over the route
  BytesPerSecond bandwidth(DeviceIndex from, DeviceIndex to) const;  // the least over the route
  // How much longer a message of that size takes alone on a route than at the route's bandwidth: its size over the
  // least rate that the links' curves give it, less its size over the least bandwidth.
  Seconds shortfall(std::span<const ChannelIndex> route, double bytes) const;
  // Of all nodes and devices, per hour; nothing when a device's is unknown.
  std::optional<double> price() const;
  void leave_free(const Headroom& headroom);  // on each device

 private:
  Routes routes_;
};

// What a kind of device brings along. The device catalogue lies above proto/, so the caller passes its look-up.
struct KindDefaults {
  Bytes memory;                   // 0: unknown, the file must say it
  BytesPerSecond host_bandwidth;  // one way, between device and host; 0: unknown, the file must say it
  Seconds host_latency;
  BytesPerSecond nvlink;   // one way, all of a device's peer links together; 0: it has none
  std::string suggestion;  // when the kind is unknown: a near name, or empty
};
using KindLookup = KindDefaults (*)(const std::string& kind);
inline constexpr Seconds kNvlinkLatency{2e-6};

// What to read otherwise than a cluster file says it: the same machines but for this. Whatever the file leaves to the
// device catalogue follows the change.
struct ClusterChanges {
  std::map<std::string, std::int64_t> nodes;    // by a node's name: so many of it, 0 or more
  std::map<std::string, std::int64_t> devices;  // by a node's name: so many devices of its one entry
  std::map<std::string, std::string> kinds;     // by a node's name or a kind: the kind instead, a card with its own
                                                // memory, NVLink and price
  std::set<std::string> lost;                   // nodes that are gone, with their links
};

// The YAML form (docs/cluster.md). Throws Error(kInvalidInput) that names file and line, and what to write instead;
// read_cluster throws Error(kNotFound) when there is no such file. `lookup` may be null: then no kind has defaults. A
// change of what the file does not have is refused likewise.
Cluster read_cluster(const std::string& path, KindLookup lookup, const ClusterChanges& changes = {});
Cluster parse_cluster(const std::string& yaml, const std::string& source, KindLookup lookup,
                      const ClusterChanges& changes = {});

// The cluster as text that parse_cluster reads back as the same cluster, with whatever look-up: every figure is written
// out. For clusters that agents found.
std::string to_yaml(const Cluster& cluster);

}  // namespace motley
