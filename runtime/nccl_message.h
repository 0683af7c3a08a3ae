#pragma once

// A message on a GPU between the call that posts it and its start on both sides. Used by nccl_communicator.cc alone.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/nccl_comm.h"

namespace motley {

// Streams on which the caller's events are waited for, since the caller may drop an event before its message is
// started.
class NcclRelays {
 public:
  ~NcclRelays() {
    for (cudaStream_t stream : free_) cudaStreamDestroy(stream);
  }
  cudaStream_t take() {
    std::lock_guard lock(mutex_);
    cudaStream_t stream = nullptr;
    if (free_.empty()) {
      check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream for messages");
    } else {
      stream = free_.back();
      free_.pop_back();
    }
    return stream;
  }
  void give(cudaStream_t stream) {
    std::lock_guard lock(mutex_);
    free_.push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::vector<cudaStream_t> free_;
};

// A message that may not have been started yet.
struct NcclMessage {
  NcclMessage(const std::shared_ptr<NcclRelays>& all, NativeEvent event) : relays(event == nullptr ? nullptr : all) {
    if (event == nullptr) return;
    stream = relays->take();
    check_cuda(cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(event), 0), "a message's event");
    check_cuda(cudaEventRecord(ready.get(), stream), "a message's event");
  }
  ~NcclMessage() {
    if (stream != nullptr) relays->give(stream);
  }
  NcclMessage(const NcclMessage&) = delete;
  NcclMessage& operator=(const NcclMessage&) = delete;
  NativeEvent ready_event() const { return stream == nullptr ? nullptr : ready.get(); }

  const std::shared_ptr<NcclRelays> relays;
  cudaStream_t stream = nullptr;
  CudaEvent ready, done;
  std::mutex mutex;
  std::condition_variable changed;
  bool started = false;
};

// Throws Error(kUnsupported) for what NCCL does not sum.
ncclDataType_t nccl_type(DType dtype);

}  // namespace motley
