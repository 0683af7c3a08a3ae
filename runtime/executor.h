#pragma once

// One device of this process. Ops run in order on its compute stream; on a CPU they have run when the call returns, on
// an accelerator they may still be queued (see record and synchronize). Not thread-safe but for what is said: one
// thread calls it. Handles may be copied, dropped and read (data_pointer, byte_size) by any thread.
//
// Tensors are contiguous unless an op made them otherwise (a view, channels-last); data_pointer refuses those, and
// contiguous() makes one that is. Errors of LibTorch come as Error and name the op, its source line and the shapes.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/host_tensor.h"

namespace motley {

class DeviceTensor;
using TensorHandle = std::shared_ptr<DeviceTensor>;  // null: absent (kNone)
class RecordedEvent;
using EventHandle = std::shared_ptr<RecordedEvent>;  // null: already passed
void* native_event(const EventHandle& event);        // cudaEvent_t, as a communicator takes it; null for null

std::byte* data_pointer(const TensorHandle& tensor);  // on the device; MOTLEY_CHECK that it is contiguous
Bytes byte_size(const TensorHandle& tensor);          // of its elements
DType dtype_of(const TensorHandle& tensor);
std::vector<std::int64_t> sizes_of(const TensorHandle& tensor);

struct ExecutorOptions {
  int threads = 1;         // of a CPU device, within an op; process-wide, since LibTorch has one pool
  std::uint64_t seed = 0;  // of random ops: the same seed, device kind and order of ops give the same numbers
};

struct RunOptions {
  std::int32_t micro_batch = 0;  // forward contexts are kept by op and micro-batch
  bool keep_context = false;     // a backward op leaves the context for further runs of it (to measure or check)
  bool runs_again = false;       // a forward op leaves no context: it will run once more before its backward ops
  // A forward op: of its inputs, and beyond them of its outputs, those that its context does not hold, since the
  // backward ops that want them bring them.
  std::span<const std::int32_t> brought = {};
};

struct DeviceMemoryUse {
  Bytes allocated;      // by tensors now
  Bytes peak;           // most of that since reset_peak_memory
  Bytes reserved_peak;  // most that the allocator held of the device since then, unused blocks included
};

// What one op allocated (see Executor::last_memory).
struct OpMemory {
  Bytes outputs;    // new storage of its outputs
  Bytes kept;       // stays for its backward beyond inputs and outputs
  Bytes workspace;  // most that it held while it ran, beyond outputs and kept
};

class Executor {
 public:
  // `device` is "cpu", "cuda:0", or another accelerator that LibTorch was loaded with. `graph` must outlive the
  // executor. Throws Error(kNotFound) for a device that is not there.
  static std::unique_ptr<Executor> open(const std::string& device, const Graph& graph, ExecutorOptions options = {});
  virtual ~Executor() = default;

  virtual const std::string& device() const = 0;

  virtual TensorHandle from_host(const HostView& tensor) = 0;
  virtual HostTensor to_host(const TensorHandle& tensor) = 0;                  // waits for the device
  virtual TensorHandle empty(TensorId tensor, std::int64_t batch) = 0;         // contiguous, of that tensor's shape
  virtual TensorHandle fill(TensorId tensor, std::int64_t batch, double) = 0;  // ... filled with a number

  // Runs one op on `batch` samples. Inputs stand as in Op::inputs (null for kNone, and for a gradient that nobody
  // made), outputs as in Op::outputs (null for kNone); state is written in place and is not among the outputs unless
  // the op lists it. Backward ops use only their leading gradients; what else they need, the forward op's context
  // holds, unless it was told that they bring it. An input that is handed over (moved in) and whose storage nobody else
  // holds may be written over by kGradientSum.
  //
  // A forward op that has backward ops in the graph keeps its context until the last of them has run, in any order.
  // Where LibTorch has one kernel for both gradients (normalizations), the first of them computes both; so time a
  // backward op only together with its siblings: forward, then each of its backward ops once, in graph order.
  virtual std::vector<TensorHandle> run(OpId op, std::int64_t batch, std::vector<TensorHandle> inputs,
                                        const RunOptions& options = {}) = 0;

  // The samples [begin, end) of a tensor that holds `batch`, laid out as `layout` (kSplit), as a tensor of its own.
  virtual TensorHandle slice(const TensorHandle& tensor, const BatchLayout& layout, std::int64_t begin,
                             std::int64_t end, std::int64_t batch) = 0;
  // Parts joined along the batch dimension in order; batches[i] is the samples that parts[i] holds.
  virtual TensorHandle concat(std::span<const TensorHandle> parts, const BatchLayout& layout,
                              std::span<const std::int64_t> batches) = 0;
  virtual TensorHandle sum(std::vector<TensorHandle> parts) = 0;       // may reuse a part that is handed over
  virtual TensorHandle scale(TensorHandle tensor, double factor) = 0;  // likewise
  virtual void scale_in_place(const TensorHandle& tensor, double factor) = 0;
  virtual void copy(const TensorHandle& from, const TensorHandle& to) = 0;  // same sizes; into `to`'s storage
  virtual TensorHandle contiguous(const TensorHandle& tensor) = 0;          // itself when it is so already
  // A buffer for several tensors that travel as one, and the part of it from element `offset` on, as a tensor of those
  // sizes that shares its storage.
  virtual TensorHandle flat(DType dtype, std::int64_t elements) = 0;
  virtual TensorHandle view(const TensorHandle& flat, std::int64_t offset, std::span<const std::int64_t> sizes) = 0;

  virtual void clear_contexts() = 0;  // after an iteration that was cut short

  // The communicator orders its own streams against these. On a CPU there is nothing to order: both are null.
  virtual void* compute_stream() = 0;                      // the device API's own handle (cudaStream_t)
  virtual EventHandle record() = 0;                        // the point that the compute stream has reached
  virtual void synchronize(const EventHandle& event) = 0;  // the calling thread, any, waits until it has passed
  virtual void synchronize() = 0;                          // ... until the compute stream is empty
  virtual Seconds elapsed(const EventHandle& from, const EventHandle& to) = 0;  // accelerators; both have passed

  virtual DeviceMemoryUse memory() const = 0;
  // Most that was ever taken of the device: by this process of a CPU device; of an accelerator by all, as it is now.
  virtual Bytes device_peak() const = 0;
  virtual void reset_peak_memory() = 0;
  virtual void release_cached_memory() = 0;  // returns unused blocks to the device
  // Of the last run() while this is on: costs a few microseconds an op, and resets the peak.
  virtual void measure_op_memory(bool on) = 0;
  virtual OpMemory last_memory() const = 0;
};

}  // namespace motley
