#pragma once

// The cost model that plans rest on: for every op of one graph and every device of one cluster, the curve that was
// measured, or else the best guess there is:
//   1. measured on this device's kind and fingerprint, corrected by what real runs there showed;
//   2. measured on another kind of the same sort (the same card slowed, "T4" for "T4@0.5", or with other
//      software; else the GPU, or CPU, with
//      the most of this graph), times the quotient of the two devices' rooflines at the same batch;
//   3. the roofline, calibrated on what was measured on the device.
// Only 1 is told as measured, and only from half of the smallest to twice the largest batch that was measured.
// Immutable once built, thread-safe; op() is a binary search among few points.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "profiler/cost_model.h"
#include "profiler/curve.h"
#include "profiler/profile.h"
#include "profiler/store.h"

namespace motley {

struct CostTableOptions {
  // By Device::name: which of several fingerprints of its kind the device has. Without one, the most recent.
  std::map<std::string, Fingerprint> fingerprints;
};

// On what the costs of one device rest.
struct CostBasis {
  std::string fingerprint;      // device and software measured; empty when nothing was
  std::string scaled_from;      // the other kind; empty when none was used
  std::int32_t signatures = 0;  // distinct ops of the graph
  std::int32_t measured = 0;    // ... of these by way 1
  std::int32_t scaled = 0;      // by way 2; the rest by way 3
};

class CostTable : public CostModel {
 public:
  // `store` may be null: then everything is estimated. Neither argument is needed afterwards. Throws Error(kNotFound)
  // naming a device whose kind neither the store nor the catalogue knows.
  CostTable(const Graph& graph, const Cluster& cluster, const ProfileStore* store,
            const CostTableOptions& options = {});

  OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const override;
  Seconds memory_pass(DeviceIndex device, Bytes bytes) const override;
  Seconds dispatch(DeviceIndex device) const override;
  MessageCosts messages(DeviceIndex device) const override;
  Bytes context(DeviceIndex device) const override;
  AllocatorKind allocator(DeviceIndex device) const override;
  std::int32_t cost_class(DeviceIndex device) const override { return table_of_[device]; }

  const CostBasis& basis(DeviceIndex device) const { return *tables_[table_of_[device]].basis; }

 private:
  struct Entry {
    Curve curve;
    bool measured = false;
  };
  struct Table {                 // devices of equal kind and fingerprint share one
    std::vector<Entry> entries;  // by distinct signature
    DeviceCosts device;
    AllocatorKind allocator = AllocatorKind::kCuda;
    MessageCosts messages;
    std::shared_ptr<const CostBasis> basis;
  };
  friend class CostTableBuilder;

  std::vector<std::int32_t> signature_of_;  // by op
  std::vector<std::int32_t> table_of_;      // by device
  std::vector<Table> tables_;
};

}  // namespace motley
