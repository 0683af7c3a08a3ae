#include "runtime/device_backend.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <fstream>
#include <string>

#include "base/control_group.h"
#include "base/error.h"
#include "runtime/cpu_allocator.h"

namespace motley {

class RecordedEvent {
 public:
  explicit RecordedEvent(c10::DeviceType type) : event(type, c10::EventFlag::BACKEND_DEFAULT) {}
  c10::Event event;
};

namespace {

// Of the resident set. getrusage's figure would include what the process was before exec.
Bytes process_peak() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return Bytes(kibibytes << 10);
  }
  return Bytes(0);
}

class CpuBackend : public DeviceBackend {
 public:
  CpuBackend() {
    install_cpu_allocator();
    // The rest is for what no tensor has: copies on their way, buffers of libraries and of the kernel.
    constexpr std::int64_t kTensorsPercent = 90;
    limit_cpu_memory(Bytes(granted_memory().value / 100 * kTensorsPercent));
  }

  void* compute_stream() override { return nullptr; }
  EventHandle record() override { return nullptr; }
  void synchronize() override {}
  DeviceMemoryUse memory() const override {
    const CpuMemoryCount count = cpu_memory();
    return {Bytes(count.allocated), Bytes(count.peak), Bytes(count.resident_peak)};
  }
  Bytes device_peak() const override { return process_peak(); }
  void reset_peak_memory() override { reset_cpu_memory_peak(); }
  void release_cached_memory() override { release_cached_cpu_memory(); }
};

class AcceleratorBackend : public DeviceBackend {
 public:
  explicit AcceleratorBackend(c10::Device device)
      : device_(device), guard_(device.type()), compute_(guard_.getStream(device)) {}

  void* compute_stream() override { return compute_.native_handle(); }
  EventHandle record() override {
    auto event = std::make_shared<RecordedEvent>(device_.type());
    event->event.record(compute_);
    return event;
  }
  void synchronize() override { compute_.synchronize(); }
  DeviceMemoryUse memory() const override {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const c10::CachingDeviceAllocator::DeviceStats stats = allocator().getDeviceStats(device_.index());
    const auto& allocated = stats.allocated_bytes[kAll];
    return {Bytes(allocated.current), Bytes(allocated.peak), Bytes(stats.reserved_bytes[kAll].peak)};
  }
  Bytes device_peak() const override {
    const auto [free, total] = allocator().getMemoryInfo(device_.index());
    return Bytes(static_cast<std::int64_t>(total - free));
  }
  void reset_peak_memory() override { allocator().resetPeakStats(device_.index()); }
  void release_cached_memory() override { allocator().emptyCache(); }

 private:
  c10::DeviceAllocator& allocator() const { return *c10::getDeviceAllocator(device_.type()); }

  c10::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream compute_;
};

}  // namespace

std::unique_ptr<DeviceBackend> DeviceBackend::make(c10::Device device) {
  if (device.is_cpu()) return std::make_unique<CpuBackend>();
  return std::make_unique<AcceleratorBackend>(device);
}

void* native_event(const EventHandle& event) { return event == nullptr ? nullptr : event->event.eventId(); }

void synchronize_event(const EventHandle& event) {
  if (event != nullptr) event->event.synchronize();
}

Seconds elapsed_between(const EventHandle& from, const EventHandle& to) {
  MOTLEY_CHECK(from != nullptr && to != nullptr, "events of a CPU device carry no time");
  constexpr double kMillisecond = 1e-3;
  return Seconds(from->event.elapsedTime(to->event) * kMillisecond);
}

}  // namespace motley
