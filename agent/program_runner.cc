#include "agent/program_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"

namespace motley {
namespace {

double scalar_of(const HostTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      return elements<float>(tensor)[0];
    case DType::kFloat64:
      return elements<double>(tensor)[0];
    default:
      throw Error(ErrorKind::kUnsupported, "a loss of type " + to_string(tensor.dtype) + ": make it float32");
  }
}

}  // namespace

ProgramRunner::ProgramRunner(const Graph& graph, const Program& program, Executor& executor, Communicator& communicator,
                             std::vector<TensorHandle>& state, RunnerOptions options)
    : graph_(graph),
      program_(program),
      plan_(graph, program),
      executor_(executor),
      communicator_(communicator),
      state_(state),
      options_(std::move(options)),
      clock_(make_real_clock()),
      on_accelerator_(executor.compute_stream() != nullptr) {
  if (options_.emulated_speed) pacer_.emplace(*options_.emulated_speed, clock_);
  threads_.emplace_back([this] { run_sends(); });
  threads_.emplace_back([this] { run_receives(); });
  threads_.emplace_back([this] { run_collectives(); });
}

ProgramRunner::~ProgramRunner() {
  sends_.close();
  receives_.close();
  collectives_.close();
  for (std::thread& thread : threads_) thread.join();
}

IterationResult ProgramRunner::run(std::vector<TensorHandle> inputs, bool measure) {
  const Seconds begin = clock_->now();
  IterationResult result;
  try {
    measure_ = measure;
    const EventHandle origin = measure && on_accelerator_ ? executor_.record() : nullptr;
    if (origin) executor_.synchronize(origin);
    const Seconds origin_time = clock_->now();
    start(std::move(inputs));
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      if (news_.load(std::memory_order_acquire)) service();
      if (stream_of(program_.instructions[i].kind) == Stream::kCompute) compute(static_cast<std::int32_t>(i));
    }
    while (messages_left_ > 0) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return news_.load(std::memory_order_relaxed); });
      lock.unlock();
      service();
    }
    for (std::size_t value = 0; value < received_state_.size(); ++value) {
      if (received_state_[value]) state_[value] = std::move(received_state_[value]);
    }
    for (const LossPart& part : program_.losses) {
      wait_for(part.value);
      result.loss = result.loss.value_or(0) + scalar_of(executor_.to_host(take(part.value))) * part.weight;
    }
    executor_.synchronize();
    if (pacer_) pacer_->catch_up();
    for (const QueuedEvent& event : queued_events_) {
      events_.push_back({event.instruction,
                         origin_time + executor_.elapsed(origin, event.start),
                         origin_time + executor_.elapsed(origin, event.end),
                         {}});
    }
  } catch (const std::exception& error) {
    communicator_.abort(error.what());
    throw;
  }
  result.events = std::exchange(events_, {});
  result.time = clock_->now() - begin;
  return result;
}

void ProgramRunner::start(std::vector<TensorHandle> inputs) {
  const std::size_t values = program_.values.size();
  slots_.assign(values, nullptr);
  available_.assign(values, 0);
  arrived_.assign(values, Seconds{});
  received_state_.assign(values, nullptr);
  uses_.resize(values);
  for (std::size_t i = 0; i < values; ++i) uses_[i] = plan_.values[i].uses;
  for (const LossPart& part : program_.losses) ++uses_[part.value];
  missing_ = plan_.inputs;
  posted_ = received_ = 0;
  messages_left_ = static_cast<std::size_t>(
      std::count_if(program_.instructions.begin(), program_.instructions.end(),
                    [](const Instruction& instruction) { return stream_of(instruction.kind) != Stream::kCompute; }));
  sends_.restart();
  receives_.restart();
  collectives_.restart();
  events_.clear();
  queued_events_.clear();
  if (pacer_) pacer_->resume();
  MOTLEY_CHECK(inputs.size() == program_.inputs.size(), "inputs of a program");
  for (std::size_t i = 0; i < inputs.size(); ++i) slots_[program_.inputs[i]] = std::move(inputs[i]);
  for (std::size_t i = 0; i < values; ++i) {
    if (slots_[i] || program_.values[i].persistent) available(static_cast<ValueId>(i));
  }
  post_receives();
}

void ProgramRunner::compute(std::int32_t id) {
  const Instruction& instruction = program_.instructions[id];
  Seconds ready{};
  for (const ValueId input : instruction.inputs) {
    if (input == kNone) continue;
    wait_for(input);
    ready = std::max(ready, arrived_[input]);
  }
  const bool time_device = measure_ && on_accelerator_;
  const EventHandle started = time_device ? executor_.record() : nullptr;
  const Seconds begin = measure_ ? clock_->now() : Seconds{};
  const bool time_thread = pacer_ || (measure_ && options_.granted_share);
  const Seconds used = time_thread ? thread_cpu_time() : Seconds{};
  std::vector<TensorHandle> outputs = execute(id);
  const Seconds needed = time_thread ? thread_cpu_time() - used : Seconds{};
  MOTLEY_CHECK(outputs.size() == instruction.outputs.size(), "outputs of an instruction");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId output = instruction.outputs[i];
    if (output != kNone && !program_.values[output].persistent) slots_[output] = std::move(outputs[i]);
  }
  if (time_device) {
    queued_events_.push_back({id, started, executor_.record()});
  } else if (pacer_) {
    const Seconds end = pacer_->finish(ready, needed);
    const auto leaves = [&](ValueId output) { return output != kNone && !plan_.values[output].messages.empty(); };
    if (std::any_of(instruction.outputs.begin(), instruction.outputs.end(), leaves)) pacer_->catch_up();
    const Seconds work = needed / *options_.emulated_speed;
    if (measure_) events_.push_back({id, end - work, end, work});
  } else if (measure_) {
    const Seconds work = time_thread ? needed / *options_.granted_share : Seconds{};
    events_.push_back({id, begin, clock_->now(), work});
  }
  for (const ValueId output : instruction.outputs) {
    if (output != kNone) available(output);
  }
  finish(id);
}

std::vector<TensorHandle> ProgramRunner::execute(std::int32_t id) {
  const Instruction& instruction = program_.instructions[id];
  const auto value = [&](ValueId id) -> const Value& { return program_.values[id]; };
  const auto samples = [&](ValueId id) { return value(id).end - value(id).begin; };
  const auto layout = [&](ValueId id) -> const BatchLayout& { return graph_.tensors[value(id).tensor].layout; };
  std::vector<TensorHandle> inputs;
  for (const ValueId input : instruction.inputs) {
    const auto times = std::count(instruction.inputs.begin(), instruction.inputs.end(), input);
    inputs.push_back(input == kNone ? nullptr : times > 1 ? held(input) : take(input));
  }
  switch (instruction.kind) {
    case InstructionKind::kCompute: {
      if (graph_.ops[instruction.op].kind != OpKind::kUpdate) {
        return executor_.run(instruction.op, instruction.batch, std::move(inputs),
                             {.micro_batch = instruction.micro_batch,
                              .runs_again = plan_.runs_again[id] != 0,
                              .brought = plan_.brought[id]});
      }
      const TensorHandle parameter = inputs[0];  // written in place, and the output
      executor_.run(instruction.op, instruction.batch, std::move(inputs));
      return {parameter};
    }
    case InstructionKind::kSlice: {
      const ValueId input = instruction.inputs[0];
      const Value& output = value(instruction.outputs[0]);
      const std::int64_t offset = value(input).begin;
      return {executor_.slice(inputs[0], layout(input), output.begin - offset, output.end - offset, samples(input))};
    }
    case InstructionKind::kConcat: {
      std::vector<std::int64_t> batches;
      for (const ValueId input : instruction.inputs) batches.push_back(samples(input));
      return {executor_.concat(inputs, layout(instruction.inputs[0]), batches)};
    }
    case InstructionKind::kSum:
      return {executor_.sum(std::move(inputs))};
    case InstructionKind::kScale: {
      const ValueId into = value(instruction.outputs[0]).alias_of;
      if (into == kNone) return {executor_.scale(std::move(inputs[0]), instruction.scale)};
      executor_.copy(inputs[0], held(into));
      if (instruction.scale != 1.0) executor_.scale_in_place(held(into), instruction.scale);
      return {held(into)};
    }
    case InstructionKind::kFill: {
      const ValueId output = instruction.outputs[0];
      return {executor_.fill(value(output).tensor, samples(output), instruction.scale)};
    }
    default:
      break;
  }
  MOTLEY_CHECK(false, "an instruction that is not of the compute stream");
}

void ProgramRunner::wait_for(ValueId value) {
  while (!available_[value]) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return news_.load(std::memory_order_relaxed); });
    lock.unlock();
    service();
  }
}

void ProgramRunner::service() {
  std::vector<MeasuredEvent> finished;
  {
    const std::scoped_lock lock(mutex_);
    if (error_) fail();
    finished.swap(finished_);
    news_.store(false, std::memory_order_relaxed);
  }
  for (const MeasuredEvent& event : finished) {
    const Instruction& instruction = program_.instructions[event.instruction];
    --messages_left_;
    if (instruction.kind == InstructionKind::kReceive) ++received_;
    if (measure_) events_.push_back(event);
    for (const ValueId output : instruction.outputs) {
      if (output == kNone) continue;
      arrived_[output] = event.end;
      const ValueId state = plan_.values[output].state;
      if (state != kNone) received_state_[state] = slots_[output];
      available(output);
    }
    if (instruction.kind != InstructionKind::kAllReduce) finish(event.instruction);
  }
  post_receives();
}

void ProgramRunner::available(ValueId value) {
  available_[value] = 1;
  for (const std::int32_t id : plan_.values[value].messages) {
    if (--missing_[id] == 0) prepare(id);
  }
  if (uses_[value] == 0 && !program_.values[value].persistent) slots_[value] = nullptr;
}

void ProgramRunner::prepare(std::int32_t id) {
  const Instruction& instruction = program_.instructions[id];
  if (instruction.kind == InstructionKind::kAllReduce) {
    prepare_collective(id);
    return;
  }
  const ValueId input = instruction.inputs[0];
  const TensorHandle tensor = executor_.contiguous(held(input));
  sends_.put(static_cast<std::size_t>(plan_.place[id]), {id, tensor, executor_.record()});
}

// The parts of a bucket move into one buffer, of which the outputs are views.
void ProgramRunner::prepare_collective(std::int32_t id) {
  const Instruction& instruction = program_.instructions[id];
  const Seconds used = pacer_ ? thread_cpu_time() : Seconds{};
  TensorHandle buffer;
  if (instruction.inputs.size() == 1) {
    buffer = executor_.contiguous(executor_.scale(take(instruction.inputs[0]), instruction.scale));
    slots_[instruction.outputs[0]] = buffer;
    drop_use(instruction.inputs[0]);
  } else {
    std::vector<std::vector<std::int64_t>> sizes;
    std::int64_t count = 0;
    for (const ValueId input : instruction.inputs) {
      sizes.push_back(sizes_of(held(input)));
      count += element_count(sizes.back());
    }
    buffer = executor_.flat(dtype_of(held(instruction.inputs[0])), count);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
      const TensorHandle part = executor_.view(buffer, offset, sizes[i]);
      executor_.copy(held(instruction.inputs[i]), part);
      slots_[instruction.outputs[i]] = part;
      offset += element_count(sizes[i]);
      drop_use(instruction.inputs[i]);
    }
    if (instruction.scale != 1.0) executor_.scale_in_place(buffer, instruction.scale);
  }
  if (pacer_) {
    pacer_->finish(Seconds{}, thread_cpu_time() - used);
    pacer_->catch_up();
  }
  collectives_.put(static_cast<std::size_t>(plan_.place[id]), {id, buffer, executor_.record()});
}

void ProgramRunner::post_receives() {
  while (posted_ < plan_.receives.size() && posted_ < received_ + std::size_t{kPostedReceives}) {
    const std::int32_t id = plan_.receives[posted_++];
    const Instruction& instruction = program_.instructions[id];
    const ValueId output = instruction.outputs[0];
    const Value& value = program_.values[output];
    const TensorHandle tensor = executor_.empty(value.tensor, value.end - value.begin);
    slots_[output] = tensor;
    auto pending =
        communicator_.receive(data_pointer(tensor), byte_size(tensor), options_.rank_of_device[instruction.peer],
                              instruction.tag, native_event(executor_.record()));
    receives_.put(static_cast<std::size_t>(plan_.place[id]), {id, tensor, std::move(pending)});
  }
}

const TensorHandle& ProgramRunner::held(ValueId value) const {
  return program_.values[value].persistent ? state_[value] : slots_[value];
}

TensorHandle ProgramRunner::take(ValueId value) {
  if (program_.values[value].persistent || uses_[value] > 1) return held(value);
  return std::move(slots_[value]);
}

void ProgramRunner::drop_use(ValueId value) {
  if (program_.values[value].persistent) return;
  if (--uses_[value] == 0) slots_[value] = nullptr;
}

void ProgramRunner::finish(std::int32_t id) {
  const auto& inputs = program_.instructions[id].inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool first = std::find(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(i), inputs[i]) ==
                       inputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (inputs[i] != kNone && first) drop_use(inputs[i]);
  }
}

void ProgramRunner::fail() { std::rethrow_exception(error_); }

void ProgramRunner::run_sends() {
  while (auto job = sends_.take()) {
    try {
      const Instruction& instruction = program_.instructions[job->instruction];
      const Seconds start = clock_->now();
      const auto pending =
          communicator_.send(data_pointer(job->tensor), byte_size(job->tensor),
                             options_.rank_of_device[instruction.peer], instruction.tag, native_event(job->ready));
      pending->wait(options_.message_timeout);
      done(job->instruction, start);
    } catch (...) {
      failed(std::current_exception());
      return;
    }
  }
}

void ProgramRunner::run_receives() {
  Seconds start = clock_->now();
  while (auto job = receives_.take()) {
    try {
      start = std::max(start, clock_->now());
      job->pending->wait(options_.message_timeout);
      done(job->instruction, start);
    } catch (...) {
      failed(std::current_exception());
      return;
    }
  }
}

void ProgramRunner::run_collectives() {
  while (auto job = collectives_.take()) {
    try {
      const Instruction& instruction = program_.instructions[job->instruction];
      const Seconds start = clock_->now();
      const DType dtype = dtype_of(job->tensor);
      communicator_.all_reduce(options_.groups.at(static_cast<std::size_t>(instruction.collective)),
                               data_pointer(job->tensor), byte_size(job->tensor).value / size_of(dtype).value, dtype,
                               options_.message_timeout, native_event(job->ready));
      done(job->instruction, start);
    } catch (...) {
      failed(std::current_exception());
      return;
    }
  }
}

void ProgramRunner::done(std::int32_t instruction, Seconds start) {
  {
    const std::scoped_lock lock(mutex_);
    finished_.push_back({instruction, start, clock_->now(), {}});
    news_.store(true, std::memory_order_release);
  }
  changed_.notify_one();
}

void ProgramRunner::failed(const std::exception_ptr& error) {
  {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = error;
    news_.store(true, std::memory_order_release);
  }
  changed_.notify_one();
}

}  // namespace motley
