#pragma once

// What the instructions of a deployment cost, and on what that knowledge rests.

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "profiler/profile.h"
#include "proto/cluster.h"

namespace motley {

struct OpCost {
  Seconds time;           // on an otherwise idle device, launch included
  Seconds spread;         // median absolute deviation of the repeats
  Bytes kept;             // kForward: what the op itself keeps for its backward beyond its inputs and outputs
  Bytes workspace;        // most that it allocates while it runs beyond its outputs
  bool measured = false;  // false: estimated from the catalogue
};

// How a device's memory is given out (simulator/allocator.h).
enum class AllocatorKind : std::uint8_t {
  kNone,  // byte by byte
  kCpu,   // runtime/cpu_allocator.h
  kCuda,  // LibTorch's caching allocator
};

// Thread-safe when const. Implementations answer from tables: a call is a few nanoseconds to a microsecond.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual OpCost op(OpId op, DeviceIndex device, std::int64_t batch) const = 0;
  // Slice, concatenate, sum, scale, fill: `bytes` written on the device.
  virtual Seconds memory_pass(DeviceIndex device, Bytes bytes) const = 0;
  // Of the host thread, for an instruction of the compute stream beside what that itself takes.
  virtual Seconds dispatch(DeviceIndex) const { return {}; }
  // Of a message at one end, and of every step of a collective.
  virtual MessageCosts messages(DeviceIndex device) const = 0;
  // Memory of the process and the device context beside the tensors.
  virtual Bytes context(DeviceIndex device) const = 0;
  virtual AllocatorKind allocator(DeviceIndex) const { return AllocatorKind::kNone; }
  // Devices of one class cost the same for everything. Without further knowledge no two are alike.
  virtual std::int32_t cost_class(DeviceIndex device) const { return device; }
};

}  // namespace motley
