#pragma once

// The machines of Sailor's profiles: GPUs on nodes that meet at one switch, on links as its network figures tell.

#include <map>

#include "imports/sailor.h"

namespace motley {

class SailorClusterBuilder {
 public:
  explicit SailorClusterBuilder(const SailorProfiles& profiles) : profiles_(profiles) {}

  void add_node();
  // On the last node: one device, that `gpus` GPUs make, with the memory and the links of one.
  void add_device(const std::string& gpu, std::int64_t gpus);
  std::int64_t used() const { return used_.empty() ? 0 : used_.back(); }  // GPUs of the last node
  // All GPUs of a node send at once, since all do the same: each has its part of what so many achieve together.
  Cluster finish(const std::string& source);

 private:
  void add_link(DeviceIndex device, VertexIndex to, std::vector<RatePoint> rates);

  const SailorProfiles& profiles_;
  Cluster cluster_;
  std::vector<std::int64_t> used_;  // GPUs, by node
};

// So many GPUs of each kind, on nodes of as many as basic_cluster_config.json says; the last one of a kind may have
// fewer. Throws Error(kNotFound or kInvalidInput) naming the file for a kind that the folder has not.
Cluster sailor_cluster(const SailorProfiles& profiles, const std::map<std::string, std::int64_t>& gpus);

}  // namespace motley
