#pragma once

// One NCCL communicator with a stream of its own, in non-blocking mode: nothing here waits longer than it is told to,
// and abort() may come from any thread at any time.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/units.h"
#include "runtime/communicator.h"

namespace motley {

void check_cuda(cudaError_t code, const std::string& what);  // throws Error(kUnavailable) "what: CUDA's words"

// A cudaEvent_t without timing.
class CudaEvent {
 public:
  CudaEvent();
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t get() const { return event_; }
  bool passed() const;

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclComm {
 public:
  // Blocks until all `size` ranks are here, on the calling thread's device, or `stop` is set. `name` is told in errors.
  NcclComm(const ncclUniqueId& id, int size, int rank, std::string name, Seconds timeout,
           const std::atomic<bool>& stop);
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Puts a call on the stream: after `ready` (nullptr: at once), before `done`. Calls are made one at a time.
  void launch(NativeEvent ready, const CudaEvent& done, Seconds timeout,
              const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call);

  // Throws Error(kUnavailable) when the communicator has failed or was aborted.
  void check();
  void abort();

 private:
  // Waits while NCCL says that it is still at it. The lock is held now and then only.
  void settle(ncclResult_t result, const char* what, Seconds timeout);
  [[noreturn]] void fail(const char* what, ncclResult_t result) const;

  const std::string name_;
  const std::atomic<bool>& stop_;
  std::mutex launching_;
  std::mutex mutex_;  // guards comm_
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace motley
