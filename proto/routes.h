#pragma once

// Ways through a network without a table of all pairs of devices. Devices forward nothing, so a way is a link out of
// the one, a way between hosts and switches, and a link into the other. Of hosts and switches, those that hang at the
// rest by one link (a host at its switch, a rack at its core) keep only the channels of that link; only what is left,
// where there is a choice, has a table of pairs. A tree of 10,000 devices takes a few numbers for each.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace motley {

class Cluster;
using DeviceIndex = std::int32_t;   // index into Cluster::devices
using VertexIndex = std::int32_t;   // devices first, in order, then nodes, then switches
using ChannelIndex = std::int32_t;  // 2 * link (a to b), 2 * link + 1 (b to a); half-duplex: 2 * link for both

class Routes {
 public:
  Routes() = default;
  explicit Routes(const Cluster& cluster);

  // The channels in order; empty when none joins the two, or they are the same. Thread-safe.
  std::vector<ChannelIndex> between(const Cluster& cluster, DeviceIndex from, DeviceIndex to) const;
  // The first two devices that no way joins.
  std::optional<std::pair<DeviceIndex, DeviceIndex>> unjoined(const Cluster& cluster) const;

 private:
  struct Edge {
    VertexIndex to = -1;
    ChannelIndex out = -1;  // from here to there
    ChannelIndex in = -1;
  };
  struct Way {  // between two vertices of the core
    std::int32_t hops = -1;
    ChannelIndex entry = -1;  // by which the second is entered
    double width = 0;
  };
  struct Length {  // what ways are compared by
    std::int32_t hops = -1;
    double width = 0;
  };

  void strip(std::vector<std::vector<Edge>>& inner);
  void fill_core(const Cluster& cluster, const std::vector<std::vector<Edge>>& inner);
  const Way& way(VertexIndex from, VertexIndex to) const {
    return core_[static_cast<std::size_t>(place_[root_[from]]) * core_size_ + place_[root_[to]]];
  }
  template <class Visit>
  bool walk(const Cluster& cluster, VertexIndex from, VertexIndex to, Visit&& visit) const;
  Length length(const Cluster& cluster, VertexIndex from, VertexIndex to) const;

  std::vector<std::vector<Edge>> of_device_;  // its links
  // By host and switch, numbered from 0:
  std::vector<Edge> up_;             // the only link to the rest; none in the core
  std::vector<std::int32_t> depth_;  // links to the core
  std::vector<VertexIndex> root_;    // the vertex of the core at which it hangs
  std::vector<std::int32_t> place_;  // in the core
  std::size_t core_size_ = 0;
  std::vector<Way> core_;  // from * core_size_ + to
};

}  // namespace motley
