#pragma once

// Costs set by hand, and small clusters, so that a test's expected times are arithmetic.

#include <vector>

#include "profiler/cost_model.h"

namespace motley::support {

// An op takes seconds_per_sample * batch / speed of the device (updates: seconds_per_sample / speed, whatever the
// batch); messages and contexts are free, a memory pass takes bytes / memory_rate; every figure can be set.
class FixedCosts : public CostModel {
 public:
  // One op per Graph::ops, one speed per device.
  FixedCosts(const Graph& graph, std::vector<double> speeds, double seconds_per_sample = 1.0);

  std::vector<double> seconds_per_sample;  // by op
  std::vector<Bytes> kept;                 // by op, per sample
  std::vector<Bytes> workspace;            // by op, per sample
  std::vector<double> speeds;              // by device
  BytesPerSecond memory_rate{1e18};
  MessageCosts message_costs;  // of every device
  Bytes context_bytes{0};
  bool measured = true;

  OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override;
  Seconds memory_pass(DeviceIndex device, Bytes bytes) const override;
  MessageCosts messages(DeviceIndex device) const override;
  Bytes context(DeviceIndex device) const override;
  std::int32_t cost_class(DeviceIndex device) const override;  // by speed

 private:
  std::vector<char> is_update_;
};

// `count` nodes of one device each ("n0/0", "n1/0", ...) around one switch "tor"; every device's link to its node is so
// fast (1e18 bytes per second, no latency) that only the node's link to the switch counts: bandwidths[i % size] and
// `latency` for node i. Two devices are joined by their two links: bandwidth the lesser, latency the double.
Cluster star_cluster(int count, std::vector<BytesPerSecond> bandwidths, Seconds latency = Seconds(0),
                     Bytes memory = Bytes(std::int64_t{1} << 40));

}  // namespace motley::support
