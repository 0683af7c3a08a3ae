#pragma once

// What differs between a CPU device and an accelerator: streams, events and memory statistics. The accelerator's side
// is written against LibTorch's device-neutral interfaces, so it needs no CUDA header; libtorch_cuda registers behind
// them.

#include <c10/core/Device.h>

#include <memory>

#include "runtime/device_tensor.h"

namespace motley {

class DeviceBackend {  // its functions are those of Executor
 public:
  static std::unique_ptr<DeviceBackend> make(c10::Device device);
  virtual ~DeviceBackend() = default;

  virtual void* compute_stream() = 0;
  virtual EventHandle record() = 0;
  virtual void synchronize() = 0;
  virtual DeviceMemoryUse memory() const = 0;
  virtual Bytes device_peak() const = 0;
  virtual void reset_peak_memory() = 0;
  virtual void release_cached_memory() = 0;
};

void synchronize_event(const EventHandle& event);
Seconds elapsed_between(const EventHandle& from, const EventHandle& to);

}  // namespace motley
