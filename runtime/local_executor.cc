#include "runtime/local_executor.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/guarded.h"
#include "runtime/optimizer_step.h"

namespace motley {
namespace {

std::string shapes_of(std::span<const TensorHandle> inputs) {
  std::string text;
  for (const TensorHandle& input : inputs) {
    text += text.empty() ? "" : ", ";
    text += input == nullptr ? "none" : c10::str(input->value.scalar_type(), input->value.sizes());
  }
  return text;
}

// A backward op's inputs beyond its gradients, to where its forward op had them.
void bring(const Op& forward, const Op& backward, std::span<const at::Tensor> inputs, SavedTensors& saved) {
  std::vector<TensorId> places = forward.inputs;
  places.insert(places.end(), forward.outputs.begin(), forward.outputs.end());
  for (std::size_t i = backward.gradient_outputs.size(); i < inputs.size(); ++i) {
    for (std::size_t place = 0; place < places.size(); ++place) {
      if (inputs[i].defined() && places[place] == backward.inputs[i]) {
        saved.put_back(static_cast<std::int32_t>(place), inputs[i]);
      }
    }
  }
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
  if (forward.backward.empty() || options.runs_again) {
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
    std::optional<SavedTensors> saved;
    if (options.brought.empty()) {
      outputs = call(inputs);
    } else {
      const SavedTensors::Recording recording(saved.emplace());
      outputs = call(inputs);
    }
    OpContext context(inputs, forward.places, outputs);
    for (std::int32_t place : options.brought) {
      const auto beyond = static_cast<std::size_t>(place) - inputs.size();
      saved->let_go(place, static_cast<std::size_t>(place) < inputs.size() ? inputs[place] : outputs[beyond]);
    }
    context.brought = std::move(saved);
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
  if (context.brought) bring(graph_.ops[op.forward], op, inputs, *context.brought);
  std::vector<at::Tensor> results;
  if (context.stash && context.stash->op == id) {
    results = std::move(context.stash->gradients);
    context.stash.reset();
  } else if (forward.joint && forward.backward.size() == 2) {
    const OpId sibling = forward.backward[forward.backward[0] == id ? 1 : 0];
    const Op& other = graph_.ops[sibling];
    std::vector<std::int32_t> places = op.gradient_inputs;
    places.insert(places.end(), other.gradient_inputs.begin(), other.gradient_inputs.end());
    results = context.backward(op.gradient_outputs, gradients, places);
    const auto others = results.begin() + static_cast<std::ptrdiff_t>(op.gradient_inputs.size());
    context.stash = {sibling, {std::make_move_iterator(others), std::make_move_iterator(results.end())}};
    results.erase(others, results.end());
  } else {
    results = context.backward(op.gradient_outputs, gradients, op.gradient_inputs);
  }
  if (context.brought) context.brought->let_go_again();
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

void LocalExecutor::clear_contexts() {
  for (ForwardOp& forward : forward_) forward.contexts.clear();
}

}  // namespace motley
