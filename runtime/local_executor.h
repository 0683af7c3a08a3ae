#pragma once

// The Executor over LibTorch.

#include <map>
#include <optional>
#include <utility>

#include "runtime/device_backend.h"
#include "runtime/op_call.h"
#include "runtime/op_context.h"

namespace motley {

class LocalExecutor : public Executor {
 public:
  LocalExecutor(const Graph& graph, c10::Device device, const ExecutorOptions& options);

  const std::string& device() const override { return name_; }

  TensorHandle from_host(const HostView& tensor) override;
  HostTensor to_host(const TensorHandle& tensor) override;
  TensorHandle empty(TensorId tensor, std::int64_t batch) override;
  TensorHandle fill(TensorId tensor, std::int64_t batch, double value) override;

  std::vector<TensorHandle> run(OpId op, std::int64_t batch, std::vector<TensorHandle> inputs,
                                const RunOptions& options) override;

  TensorHandle slice(const TensorHandle& tensor, const BatchLayout& layout, std::int64_t begin, std::int64_t end,
                     std::int64_t batch) override;
  TensorHandle concat(std::span<const TensorHandle> parts, const BatchLayout& layout,
                      std::span<const std::int64_t> batches) override;
  TensorHandle sum(std::vector<TensorHandle> parts) override;
  TensorHandle scale(TensorHandle tensor, double factor) override;
  void scale_in_place(const TensorHandle& tensor, double factor) override;
  void copy(const TensorHandle& from, const TensorHandle& to) override;
  TensorHandle contiguous(const TensorHandle& tensor) override;
  TensorHandle flat(DType dtype, std::int64_t elements) override;
  TensorHandle view(const TensorHandle& flat, std::int64_t offset, std::span<const std::int64_t> sizes) override;

  void clear_contexts() override;

  void* compute_stream() override { return backend_->compute_stream(); }
  EventHandle record() override { return backend_->record(); }
  void synchronize(const EventHandle& event) override { synchronize_event(event); }
  void synchronize() override { backend_->synchronize(); }
  Seconds elapsed(const EventHandle& from, const EventHandle& to) override { return elapsed_between(from, to); }

  DeviceMemoryUse memory() const override { return backend_->memory(); }
  Bytes device_peak() const override { return backend_->device_peak(); }
  void reset_peak_memory() override { backend_->reset_peak_memory(); }
  void release_cached_memory() override { backend_->release_cached_memory(); }
  void measure_op_memory(bool on) override { measure_memory_ = on; }
  OpMemory last_memory() const override { return last_memory_; }

 private:
  struct ForwardOp {  // what is known of a forward op before it runs
    std::optional<c10::OperatorHandle> handle;
    std::vector<std::pair<std::int64_t, OpCall>> calls;  // by batch; one call for all when no argument depends on it
    std::vector<OpId> backward;                          // its backward ops in the graph
    std::vector<std::int32_t> places;                    // inputs that they give gradients of
    std::vector<std::int32_t> repeated;                  // ... that are the same tensor as an earlier one of these
    bool joint = false;  // one kernel makes all gradients: the first backward op computes them
    std::vector<std::pair<std::int32_t, OpContext>> contexts;  // by micro-batch
  };

  std::vector<TensorHandle> run_forward(const Op& op, ForwardOp& forward, std::int64_t batch,
                                        std::vector<at::Tensor> inputs, const RunOptions& options);
  std::vector<TensorHandle> run_backward(OpId id, const Op& op, std::span<const at::Tensor> inputs,
                                         const RunOptions& options);
  std::vector<TensorHandle> dispatch(OpId id, std::int64_t batch, std::vector<TensorHandle>& inputs,
                                     const RunOptions& options);
  // Outputs as handles. One that will be reduced in place over replicas, and that the graph does not know to be a view,
  // gets storage of its own when autograd passed another tensor on as it is.
  std::vector<TensorHandle> hand_out(const Op& op, std::span<const at::Tensor> inputs,
                                     std::vector<at::Tensor> outputs) const;
  const OpCall& call_of(const Op& op, ForwardOp& forward, std::int64_t batch);
  void note_memory(const DeviceMemoryUse& before, std::span<const TensorHandle> inputs,
                   std::span<const TensorHandle> outputs);
  at::Tensor make(TensorId tensor, std::int64_t batch) const;

  const Graph& graph_;
  c10::Device device_;
  std::string name_;
  std::unique_ptr<DeviceBackend> backend_;
  std::vector<ForwardOp> forward_;  // by OpId; empty for other kinds
  bool measure_memory_ = false;
  OpMemory last_memory_;
};

}  // namespace motley
