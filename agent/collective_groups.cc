#include "agent/collective_groups.h"

#include <algorithm>
#include <map>

namespace motley {

std::vector<RankGroup> make_groups(const Deployment& deployment, DeviceIndex device,
                                   const std::vector<int>& rank_of_device, Communicator& communicator,
                                   Seconds timeout) {
  std::map<std::vector<DeviceIndex>, RankGroup> made;
  std::vector<RankGroup> groups(deployment.collectives.size(), kNone);
  // In the order of the deployment, so that all members make the groups that they share in one order.
  for (std::size_t i = 0; i < deployment.collectives.size(); ++i) {
    const auto& members = deployment.collectives[i].members;
    if (std::find(members.begin(), members.end(), device) == members.end()) continue;
    if (!made.contains(members)) {
      std::vector<int> ranks;
      ranks.reserve(members.size());
      for (const DeviceIndex member : members) ranks.push_back(rank_of_device[static_cast<std::size_t>(member)]);
      made[members] = communicator.create_group(ranks, timeout);
    }
    groups[i] = made[members];
  }
  return groups;
}

}  // namespace motley
