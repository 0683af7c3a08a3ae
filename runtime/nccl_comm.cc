#include "runtime/nccl_comm.h"

#include <chrono>
#include <thread>

#include "base/error.h"

namespace motley {
namespace {

constexpr std::chrono::microseconds kPoll{50};
using Clock = std::chrono::steady_clock;

}  // namespace

void check_cuda(cudaError_t code, const std::string& what) {
  if (code == cudaSuccess) return;
  throw Error(ErrorKind::kUnavailable, what + ": " + cudaGetErrorString(code));
}

CudaEvent::CudaEvent() {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "an event for a message");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

bool CudaEvent::passed() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) return false;
  check_cuda(state, "a message on the GPU");
  return true;
}

NcclComm::NcclComm(const ncclUniqueId& id, int size, int rank, std::string name, Seconds timeout,
                   const std::atomic<bool>& stop)
    : name_(std::move(name)), stop_(stop) {
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), name_);
  // Messages are small kernels that others wait for: they go before compute.
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), name_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    settle(ncclCommInitRankConfig(&comm_, size, id, rank, &config), "connect", timeout);
  } catch (...) {
    abort();
    cudaStreamDestroy(stream_);
    throw;
  }
}

NcclComm::~NcclComm() {
  abort();  // its work is done, or nobody wants it; the orderly end waits for peers that may be gone
  cudaStreamDestroy(stream_);
}

void NcclComm::launch(NativeEvent ready, const CudaEvent& done, Seconds timeout,
                      const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call) {
  std::lock_guard one(launching_);
  if (ready != nullptr) check_cuda(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(ready), 0), name_);
  ncclResult_t result = ncclInvalidUsage;
  {
    std::lock_guard lock(mutex_);
    if (comm_ == nullptr) fail("start", ncclInvalidUsage);
    result = call(comm_, stream_);
  }
  settle(result, "start", timeout);
  check_cuda(cudaEventRecord(done.get(), stream_), name_);
}

void NcclComm::check() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr) fail("finish", ncclInvalidUsage);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) fail("finish", asked);
  if (state != ncclSuccess && state != ncclInProgress) fail("finish", state);
}

void NcclComm::abort() {
  std::lock_guard lock(mutex_);
  if (comm_ != nullptr) ncclCommAbort(comm_);
  comm_ = nullptr;
}

void NcclComm::settle(ncclResult_t result, const char* what, Seconds timeout) {
  const auto start = Clock::now();
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(kPoll);
    if (std::chrono::duration<double>(Clock::now() - start).count() > timeout.value) {
      throw Error(ErrorKind::kUnavailable,
                  name_ + " did not " + what + " within " + to_string(timeout) + " (NCCL): one of them is stuck");
    }
    std::lock_guard lock(mutex_);
    if (comm_ == nullptr || stop_) fail(what, ncclInvalidUsage);
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
    if (asked != ncclSuccess) fail(what, asked);
  }
  if (result != ncclSuccess) fail(what, result);
}

void NcclComm::fail(const char* what, ncclResult_t result) const {
  const bool aborted = comm_ == nullptr || stop_;
  std::string words = aborted ? "it was aborted" : ncclGetErrorString(result);
  if (!aborted) words += std::string(", ") + ncclGetLastError(comm_);
  throw Error(ErrorKind::kUnavailable, name_ + " could not " + what + " (NCCL): " + words);
}

}  // namespace motley
