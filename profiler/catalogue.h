#pragma once

// What vendors say of the devices that people have: peak rates, memory, links. From their data sheets, each named in
// the table; docs/catalogue.md says how the figures were chosen. Used for what nobody measured.

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "graph/graph.h"
#include "proto/cluster.h"

namespace motley {

struct DeviceKind {
  std::string name;  // "V100-16GB"; "V100-16GB@0.5" is one of half the speed (see find_kind)
  // Peak dense rates with accumulation in single precision, tensor cores included; 0: no units of its own.
  FlopsPerSecond fp64;
  FlopsPerSecond fp32;
  FlopsPerSecond tf32;
  FlopsPerSecond fp16;
  FlopsPerSecond bf16;
  Bytes memory;  // 0: depends on the machine
  BytesPerSecond memory_bandwidth;
  BytesPerSecond host_bandwidth;  // one way, as copies reach it: about 0.8 of the link's own rate
  Seconds host_latency;
  BytesPerSecond nvlink;  // one way, all peer links together; 0: none
  Seconds launch;         // an op that does nothing
  Bytes context;          // what a process holds before its first tensor
  Seconds message;        // fixed cost of a message at one end
  std::string source;     // the data sheet

  // The peak for arithmetic in `dtype`; where the device has no units for it, fp32's. Integers count as fp32.
  FlopsPerSecond peak(DType dtype) const;
};

const std::vector<DeviceKind>& device_kinds();

// By name. "NAME@FACTOR" (0 < FACTOR <= 1) is that device with all rates times FACTOR and its fixed times divided by
// it: a device that is slowed, throttled or emulated. Empty when the name or the factor is unknown.
std::optional<DeviceKind> find_kind(const std::string& name);

// "V100-16GB@0.5" -> {"V100-16GB", 0.5}; without a valid factor {name, 1}.
struct ScaledName {
  std::string name;
  double factor = 1;
};
ScaledName split_kind(const std::string& name);
std::string join_kind(const ScaledName& name);  // three digits of the factor; "V100-16GB" when it is 1

// The kind of a device that a driver calls `model` ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB") and that has
// `memory`; the model's own words joined by "-" when the catalogue has no such device.
std::string kind_of_model(const std::string& model, Bytes memory);

// What read_cluster takes.
KindDefaults catalogue_defaults(const std::string& kind);

}  // namespace motley
