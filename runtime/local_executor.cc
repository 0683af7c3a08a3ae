#include "runtime/local_executor.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/batch_split.h"
#include "runtime/optimizer_step.h"

namespace motley {
namespace {

// Ops whose gradients nobody will ask for skip autograd altogether.
using WithoutAutograd = at::AutoDispatchBelowADInplaceOrView;

// The device is current, and what LibTorch throws comes out as Error with `what()` in front.
template <class Describe, class Body>
auto guarded(c10::Device device, const Describe& describe_work, const Body& body) {
  const auto describe = [&] { return std::string(describe_work()); };
  try {
    const c10::OptionalDeviceGuard guard(device.is_cpu() ? std::nullopt : std::optional(device));
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(ErrorKind::kUnavailable,
                "out of memory on " + device.str() + " in " + describe() + ": " + error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    throw Error(ErrorKind::kUnsupported,
                describe() + " does not exist on " + device.str() + ": " + error.what_without_backtrace());
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kInvalidInput,
                describe() + " failed on " + device.str() + ": " + error.what_without_backtrace());
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // "derivative for aten::... is not implemented"
    throw Error(ErrorKind::kUnsupported, describe() + " does not exist: " + error.what());
  }
}

std::string shapes_of(std::span<const TensorHandle> inputs) {
  std::string text;
  for (const TensorHandle& input : inputs) {
    text += text.empty() ? "" : ", ";
    text += input == nullptr ? "none" : c10::str(input->value.scalar_type(), input->value.sizes());
  }
  return text;
}

// Nobody but this handle can see the elements change.
bool is_sole_owner(const TensorHandle& tensor) {
  return tensor.use_count() == 1 && tensor->value.use_count() == 1 && tensor->value.storage().use_count() == 1 &&
         tensor->value.is_non_overlapping_and_dense();
}

bool share_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

bool all_small(const Graph& graph, const Op& op) {
  return std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](TensorId id) { return id == kNone || graph.tensors[id].shape.size() <= 1; });
}

}  // namespace

std::unique_ptr<Executor> Executor::open(const std::string& device, const Graph& graph, ExecutorOptions options) {
  return std::make_unique<LocalExecutor>(graph, parse_device(device), options);
}

LocalExecutor::LocalExecutor(const Graph& graph, c10::Device device, const ExecutorOptions& options)
    : graph_(graph),
      device_(device),
      name_(device.str()),
      backend_(DeviceBackend::make(device)),
      forward_(graph.ops.size()) {
  if (device.is_cpu()) at::set_num_threads(options.threads);
  at::Generator generator = at::globalContext().defaultGenerator(device);
  generator.set_current_seed(options.seed);
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    const Op& op = graph.ops[id];
    if (!op.is_backward()) continue;
    ForwardOp& forward = forward_[op.forward];
    forward.backward.push_back(id);
    forward.joint = forward.joint || (op.kind == OpKind::kWeightGradient && all_small(graph, op));
    for (std::int32_t place : op.gradient_inputs) {
      const std::vector<TensorId>& inputs = graph.ops[op.forward].inputs;
      const bool repeats = std::any_of(forward.places.begin(), forward.places.end(),
                                       [&](std::int32_t earlier) { return inputs[earlier] == inputs[place]; });
      if (repeats) forward.repeated.push_back(place);
      forward.places.push_back(place);
    }
  }
}

at::Tensor LocalExecutor::make(TensorId id, std::int64_t batch) const {
  const Tensor& tensor = graph_.tensors[id];
  std::vector<std::int64_t> sizes;
  for (const BatchExpr& size : tensor.shape) sizes.push_back(size.at(batch));
  return at::empty(sizes, at::TensorOptions(device_).dtype(scalar_type(tensor.dtype)));
}

TensorHandle LocalExecutor::empty(TensorId id, std::int64_t batch) {
  const auto describe = [&] { return "a tensor for '" + graph_.tensors[id].name + "'"; };
  return guarded(device_, describe, [&] { return make_handle(make(id, batch)); });
}

TensorHandle LocalExecutor::fill(TensorId id, std::int64_t batch, double value) {
  TensorHandle tensor = empty(id, batch);
  guarded(
      device_, [] { return "fill"; }, [&] { return tensor->value.fill_(value); });
  return tensor;
}

TensorHandle LocalExecutor::from_host(const HostView& tensor) {
  const auto describe = [&] { return "a tensor of " + std::to_string(tensor.bytes.size()) + " bytes from the host"; };
  MOTLEY_CHECK(
      static_cast<std::int64_t>(tensor.bytes.size()) == element_count(tensor.sizes) * size_of(tensor.dtype).value,
      "bytes of a host tensor");
  return guarded(device_, describe, [&] {
    const at::IntArrayRef sizes(tensor.sizes.data(), tensor.sizes.size());
    const at::TensorOptions options = at::TensorOptions().dtype(scalar_type(tensor.dtype));
    at::Tensor copy = at::empty(sizes, options.device(device_));
    if (device_.is_cpu()) {
      if (!tensor.bytes.empty()) std::memcpy(copy.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
    } else {
      copy.copy_(at::from_blob(const_cast<std::byte*>(tensor.bytes.data()), sizes, options));
    }
    return make_handle(std::move(copy));
  });
}

HostTensor LocalExecutor::to_host(const TensorHandle& tensor) {
  return guarded(
      device_, [] { return "a copy to the host"; },
      [&] {
        const WithoutAutograd guard;
        const at::Tensor copy = tensor->value.contiguous().to(c10::Device(c10::kCPU));
        HostTensor host = make_host_tensor(dtype_of(copy.scalar_type()), copy.sizes().vec());
        if (!host.bytes.empty()) std::memcpy(host.bytes.data(), copy.data_ptr(), host.bytes.size());
        return host;
      });
}

std::vector<TensorHandle> LocalExecutor::run(OpId id, std::int64_t batch, std::vector<TensorHandle> inputs,
                                             const RunOptions& options) {
  const Op& op = graph_.ops[id];
  MOTLEY_CHECK(inputs.size() == op.inputs.size(), "inputs of op " + op.name);
  const auto describe_op = [&] {
    const Op& forward = op.is_backward() ? graph_.ops[op.forward] : op;
    return (op.is_backward() ? "the backward of " : "") + describe(forward) + " on (" + shapes_of(inputs) + ")";
  };
  return guarded(device_, describe_op, [&] {
    if (!measure_memory_) return dispatch(id, batch, inputs, options);
    backend_->reset_peak_memory();
    const DeviceMemoryUse before = backend_->memory();
    const std::vector<TensorHandle> held = inputs;
    std::vector<TensorHandle> outputs = dispatch(id, batch, inputs, options);
    note_memory(before, held, outputs);
    return outputs;
  });
}

std::vector<TensorHandle> LocalExecutor::dispatch(OpId id, std::int64_t batch, std::vector<TensorHandle>& inputs,
                                                  const RunOptions& options) {
  const Op& op = graph_.ops[id];
  if (op.kind == OpKind::kGradientSum) return {sum(std::move(inputs))};
  std::vector<at::Tensor> tensors(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) tensors[i] = inputs[i]->value;
  }
  if (op.kind == OpKind::kForward) return run_forward(op, forward_[id], batch, std::move(tensors), options);
  if (op.is_backward()) return run_backward(id, op, tensors, options);
  const WithoutAutograd guard;
  step_optimizer(graph_.optimizer, op, tensors);
  std::vector<TensorHandle> outputs;  // what it lists, if anything, are the tensors it wrote
  for (TensorId output : op.outputs) {
    const auto place = std::find(op.inputs.begin(), op.inputs.end(), output);
    outputs.push_back(place == op.inputs.end() ? nullptr : inputs[place - op.inputs.begin()]);
  }
  return outputs;
}

const OpCall& LocalExecutor::call_of(const Op& op, ForwardOp& forward, std::int64_t batch) {
  for (const auto& [size, call] : forward.calls) {
    if (size == batch || !call.depends_on_batch()) return call;
  }
  if (!forward.handle) forward.handle = find_operator(op);
  return forward.calls.emplace_back(batch, OpCall(op, *forward.handle, batch, device_)).second;
}

std::vector<TensorHandle> LocalExecutor::run_forward(const Op& op, ForwardOp& forward, std::int64_t batch,
                                                     std::vector<at::Tensor> inputs, const RunOptions& options) {
  const OpCall& call = call_of(op, forward, batch);
  std::vector<at::Tensor> outputs;
  if (forward.backward.empty()) {
    const WithoutAutograd guard;
    outputs = call(inputs);
  } else {
    const c10::AutoGradMode grad(true);
    for (std::int32_t place : forward.places) {
      if (inputs[place].defined()) OpContext::attach(inputs[place]);
    }
    for (std::int32_t place : forward.repeated) {
      if (inputs[place].defined()) inputs[place] = OpContext::another(inputs[place]);
    }
    outputs = call(inputs);
    OpContext context(inputs, forward.places, outputs);
    context.runs_left = static_cast<std::int32_t>(forward.backward.size());
    std::erase_if(forward.contexts, [&](const auto& kept) { return kept.first == options.micro_batch; });
    forward.contexts.emplace_back(options.micro_batch, std::move(context));
  }
  MOTLEY_CHECK(outputs.size() >= op.outputs.size(), "outputs of op " + op.name);
  outputs.resize(op.outputs.size());
  return hand_out(op, inputs, std::move(outputs));
}

std::vector<TensorHandle> LocalExecutor::hand_out(const Op& op, std::span<const at::Tensor> inputs,
                                                  std::vector<at::Tensor> outputs) const {
  using Kind = BatchLayout::Kind;
  std::vector<TensorHandle> handles(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (op.outputs[i] == kNone) continue;
    const Tensor& tensor = graph_.tensors[op.outputs[i]];
    const bool reduced = tensor.layout.kind == Kind::kPartialSum || tensor.layout.kind == Kind::kPartialMean;
    if (reduced && tensor.alias_of == kNone) {
      const auto shared = [&](const at::Tensor& other) { return share_storage(other, outputs[i]); };
      const bool shares = std::any_of(inputs.begin(), inputs.end(), shared) ||
                          std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), shared);
      if (shares) outputs[i] = outputs[i].clone();
    }
    handles[i] = make_handle(outputs[i]);
  }
  return handles;
}

std::vector<TensorHandle> LocalExecutor::run_backward(OpId id, const Op& op, std::span<const at::Tensor> inputs,
                                                      const RunOptions& options) {
  ForwardOp& forward = forward_[op.forward];
  const auto kept = std::find_if(forward.contexts.begin(), forward.contexts.end(),
                                 [&](const auto& context) { return context.first == options.micro_batch; });
  MOTLEY_CHECK(kept != forward.contexts.end(), "op " + op.name + " runs without its forward op");
  OpContext& context = kept->second;
  const std::span<const at::Tensor> gradients = inputs.first(op.gradient_outputs.size());

  const WithoutAutograd guard;
  const c10::AutoGradMode grad(false);
  std::vector<at::Tensor> results;
  if (context.stash) {
    results = std::move(*context.stash);
    context.stash.reset();
  } else if (forward.joint && forward.backward.size() == 2) {
    const Op& other = graph_.ops[forward.backward[forward.backward[0] == id ? 1 : 0]];
    std::vector<std::int32_t> places = op.gradient_inputs;
    places.insert(places.end(), other.gradient_inputs.begin(), other.gradient_inputs.end());
    results = context.backward(op.gradient_outputs, gradients, places);
    const auto others = results.begin() + static_cast<std::ptrdiff_t>(op.gradient_inputs.size());
    context.stash.emplace(std::make_move_iterator(others), std::make_move_iterator(results.end()));
    results.erase(others, results.end());
  } else {
    results = context.backward(op.gradient_outputs, gradients, op.gradient_inputs);
  }
  if (!options.keep_context && --context.runs_left == 0) forward.contexts.erase(kept);

  return hand_out(op, inputs, std::move(results));
}

void LocalExecutor::note_memory(const DeviceMemoryUse& before, std::span<const TensorHandle> inputs,
                                std::span<const TensorHandle> outputs) {
  const DeviceMemoryUse after = backend_->memory();
  std::vector<const void*> known;
  const auto is_new = [&](const TensorHandle& tensor) {
    const void* storage = tensor->value.storage().unsafeGetStorageImpl();
    if (std::find(known.begin(), known.end(), storage) != known.end()) return false;
    known.push_back(storage);
    return true;
  };
  for (const TensorHandle& input : inputs) {
    if (input != nullptr) is_new(input);
  }
  last_memory_ = {};
  for (const TensorHandle& output : outputs) {
    if (output != nullptr && is_new(output)) {
      last_memory_.outputs += Bytes(static_cast<std::int64_t>(output->value.storage().nbytes()));
    }
  }
  last_memory_.kept = std::max(Bytes(0), after.allocated - before.allocated - last_memory_.outputs);
  last_memory_.workspace = std::max(Bytes(0), after.peak - before.allocated - last_memory_.outputs - last_memory_.kept);
}

TensorHandle LocalExecutor::slice(const TensorHandle& tensor, const BatchLayout& layout, std::int64_t begin,
                                  std::int64_t end, std::int64_t batch) {
  return guarded(
      device_, [] { return "a slice"; },
      [&] {
        const WithoutAutograd guard;
        return make_handle(slice_batch(tensor->value, layout, begin, end, batch));
      });
}

TensorHandle LocalExecutor::concat(std::span<const TensorHandle> parts, const BatchLayout& layout,
                                   std::span<const std::int64_t> batches) {
  return guarded(
      device_, [] { return "a concatenation"; },
      [&] {
        const WithoutAutograd guard;
        std::vector<at::Tensor> tensors;
        for (const TensorHandle& part : parts) tensors.push_back(part->value);
        return make_handle(concat_batch(tensors, layout, batches));
      });
}

TensorHandle LocalExecutor::sum(std::vector<TensorHandle> parts) {
  std::erase(parts, nullptr);
  MOTLEY_CHECK(!parts.empty(), "a sum of nothing");
  return guarded(
      device_, [] { return "a sum"; },
      [&] {
        const WithoutAutograd guard;
        const auto own = std::find_if(parts.begin(), parts.end(), is_sole_owner);
        if (own != parts.end()) std::iter_swap(parts.begin(), own);
        if (parts.size() == 1) return parts[0];
        if (own == parts.end()) {
          TensorHandle total = make_handle(parts[0]->value.add(parts[1]->value));
          parts.erase(parts.begin());
          parts[0] = std::move(total);
        }
        for (std::size_t i = 1; i < parts.size(); ++i) parts[0]->value.add_(parts[i]->value);
        return parts[0];
      });
}

TensorHandle LocalExecutor::scale(TensorHandle tensor, double factor) {
  return guarded(
      device_, [] { return "a scaling"; },
      [&] {
        const WithoutAutograd guard;
        if (factor == 1) return is_sole_owner(tensor) ? tensor : make_handle(tensor->value.clone());
        if (!is_sole_owner(tensor)) return make_handle(tensor->value.mul(factor));
        tensor->value.mul_(factor);
        return tensor;
      });
}

void LocalExecutor::scale_in_place(const TensorHandle& tensor, double factor) {
  guarded(
      device_, [] { return "a scaling"; },
      [&] {
        const WithoutAutograd guard;
        return tensor->value.mul_(factor);
      });
}

void LocalExecutor::copy(const TensorHandle& from, const TensorHandle& to) {
  guarded(
      device_, [] { return "a copy"; },
      [&] {
        const WithoutAutograd guard;
        return to->value.copy_(from->value);
      });
}

TensorHandle LocalExecutor::contiguous(const TensorHandle& tensor) {
  if (tensor->value.is_contiguous()) return tensor;
  return guarded(
      device_, [] { return "a copy"; },
      [&] {
        const WithoutAutograd guard;
        return make_handle(tensor->value.contiguous());
      });
}

TensorHandle LocalExecutor::flat(DType dtype, std::int64_t elements) {
  return guarded(
      device_, [] { return "a buffer"; },
      [&] {
        const WithoutAutograd guard;
        return make_handle(at::empty({elements}, at::TensorOptions().dtype(scalar_type(dtype)).device(device_)));
      });
}

TensorHandle LocalExecutor::view(const TensorHandle& flat, std::int64_t offset, std::span<const std::int64_t> sizes) {
  const WithoutAutograd guard;
  const at::IntArrayRef shape(sizes.data(), sizes.size());
  return make_handle(flat->value.narrow(0, offset, element_count(sizes)).view(shape));
}

void LocalExecutor::clear_contexts() {
  for (ForwardOp& forward : forward_) forward.contexts.clear();
}

}  // namespace motley
