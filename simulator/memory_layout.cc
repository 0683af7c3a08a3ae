#include "simulator/memory_layout.h"

#include <algorithm>

namespace motley {

namespace {

class MemoryWriter {
 public:
  MemoryWriter(const Graph& graph, const FlatDeployment& flat, MemoryLayout& layout);

  void add(const Program& program);  // in order

 private:
  static constexpr std::size_t kStreams = 4;
  void add_values(const Program& program);
  void add_own(const Program& program, std::int32_t instruction);
  void add_workspace(const Program& program, std::int32_t instruction);
  std::int32_t add_storage(Storage::Kind kind, std::int64_t bytes);
  void allocate(std::int32_t instruction, std::int32_t storage) { allocations_.push_back({instruction, storage}); }
  void touch(std::int32_t instruction, std::int32_t storage);

  const FlatDeployment& flat_;
  MemoryLayout& layout_;
  std::vector<OpId> forward_of_;  // by op: of a backward op, else kNone
  // Of the program that is being added; instructions are counted from its first.
  std::int32_t program_ = 0;
  std::int32_t first_storage_ = 0;
  std::vector<std::int32_t> storage_of_;  // by value
  std::vector<std::int32_t> unreleased_;  // by value that owns: values of its storage that nothing releases
  std::vector<std::int32_t> forward_at_;  // by micro-batch and op: where it ran
  std::vector<std::int32_t> kept_by_;     // by instruction that is a forward op: the storage
  std::vector<std::int32_t> last_touch_;  // by storage and stream
  std::vector<FlatLists::Entry> allocations_, touches_;
};

MemoryWriter::MemoryWriter(const Graph& graph, const FlatDeployment& flat, MemoryLayout& layout)
    : flat_(flat), layout_(layout) {
  for (const Op& op : graph.ops) forward_of_.push_back(op.is_backward() ? op.forward : kNone);
  layout.allocates.reserve(flat.steps.size());
  layout.touches.reserve(flat.steps.size());
  layout.bucket.assign(flat.steps.size(), kNone);
}

void MemoryWriter::add(const Program& program) {
  const auto count = static_cast<std::int32_t>(program.instructions.size());
  first_storage_ = static_cast<std::int32_t>(layout_.storages.size());
  allocations_.clear();
  last_touch_.clear();
  add_values(program);
  std::size_t micro_batches = 1;
  for (const Instruction& instruction : program.instructions) {
    micro_batches = std::max(micro_batches, static_cast<std::size_t>(instruction.micro_batch) + 1);
  }
  forward_at_.assign(micro_batches * forward_of_.size(), kNone);
  kept_by_.assign(count, kNone);
  for (std::int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    for (ValueId value : instruction.outputs) {
      if (value == kNone) continue;
      const bool own = program.values[value].alias_of == kNone && !program.values[value].persistent;
      if (own) allocate(i, storage_of_[value]);
    }
    for (const std::vector<ValueId>* list : {&instruction.inputs, &instruction.outputs, &instruction.releases}) {
      for (ValueId value : *list) {
        if (value != kNone) touch(i, storage_of_[value]);
      }
    }
    add_own(program, i);
  }
  // What a forward op keeps is known to be kept once a backward op was met.
  touches_.clear();
  for (std::size_t at = 0; at < last_touch_.size(); ++at) {
    if (last_touch_[at] == kNone) continue;
    const auto storage = first_storage_ + static_cast<std::int32_t>(at / kStreams);
    touches_.push_back({last_touch_[at], storage});
    ++layout_.storages[storage].users;
  }
  layout_.allocates.append(count, allocations_);
  layout_.touches.append(count, touches_);
  ++program_;
}

void MemoryWriter::add_values(const Program& program) {
  const std::vector<Value>& values = program.values;
  const auto owner = [&](ValueId value) {
    while (values[value].alias_of != kNone) value = values[value].alias_of;
    return value;
  };
  storage_of_.assign(values.size(), kNone);
  unreleased_.assign(values.size(), 0);
  for (std::size_t v = 0; v < values.size(); ++v) {
    ++unreleased_[owner(static_cast<ValueId>(v))];
    if (values[v].alias_of != kNone) continue;
    storage_of_[v] = add_storage(Storage::Kind::kValue, values[v].bytes.value);
    layout_.storages.back().tensor = values[v].tensor;
    layout_.storages.back().from_start = values[v].persistent;
  }
  for (std::size_t v = 0; v < values.size(); ++v) storage_of_[v] = storage_of_[owner(static_cast<ValueId>(v))];
  for (ValueId value : program.inputs) layout_.storages[storage_of_[value]].from_start = true;
  for (const Instruction& instruction : program.instructions) {
    for (ValueId value : instruction.releases) --unreleased_[owner(value)];
  }
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v].alias_of != kNone) continue;
    layout_.storages[storage_of_[v]].freed = !values[v].persistent && unreleased_[v] == 0;
  }
}

// What an instruction has of its own: a bucket, received state, a workspace, what its forward op kept.
void MemoryWriter::add_own(const Program& program, std::int32_t i) {
  const Instruction& instruction = program.instructions[i];
  const OpMemory* const memory = flat_.op_memory.data() + flat_.first[program_];
  if (instruction.kind == InstructionKind::kAllReduce && instruction.inputs.size() > 1) {
    std::int64_t bytes = 0;
    for (ValueId value : instruction.inputs) bytes += program.values[value].bytes.value;
    const std::int32_t storage = add_storage(Storage::Kind::kBucket, bytes);
    layout_.bucket[flat_.first[program_] + i] = storage;
    layout_.storages.back().users = 1;
    allocate(i, storage);
  }
  if (instruction.kind == InstructionKind::kReceive && program.values[instruction.outputs[0]].alias_of != kNone) {
    const Value& received = program.values[instruction.outputs[0]];
    const std::int32_t storage = add_storage(Storage::Kind::kReceived, received.bytes.value);
    layout_.storages.back().tensor = received.tensor;
    layout_.storages.back().freed = false;
    allocate(i, storage);
    touch(i, storage);
  }
  if (instruction.kind != InstructionKind::kCompute) return;
  if (memory[i].workspace > 0) add_workspace(program, i);
  // What a forward op keeps lives until the last of its backward ops on the device; without any it keeps nothing.
  const OpId forward = forward_of_[instruction.op];
  const std::size_t first = static_cast<std::size_t>(instruction.micro_batch) * forward_of_.size();
  if (forward == kNone) {
    forward_at_[first + static_cast<std::size_t>(instruction.op)] = i;
    return;
  }
  const std::int32_t ran = forward_at_[first + static_cast<std::size_t>(forward)];
  if (ran == kNone || memory[ran].kept == 0) return;
  if (kept_by_[ran] == kNone) {
    kept_by_[ran] = add_storage(Storage::Kind::kKept, memory[ran].kept);
    layout_.storages.back().op = forward;
    allocate(ran, kept_by_[ran]);
  }
  touch(i, kept_by_[ran]);
}

// An op's workspace is one sum of bytes, but an allocator sees blocks: as a rule some of the op's tensors once more, in
// the layout that its kernel wants (oneDNN, cuDNN), so as many of them as the sum holds, the largest first, and the
// rest.
void MemoryWriter::add_workspace(const Program& program, std::int32_t i) {
  const Instruction& instruction = program.instructions[i];
  std::vector<std::int64_t> blocks;
  for (const std::vector<ValueId>* list : {&instruction.inputs, &instruction.outputs}) {
    for (ValueId value : *list) {
      if (value != kNone) blocks.push_back(program.values[value].bytes.value);
    }
  }
  std::sort(blocks.rbegin(), blocks.rend());
  std::int64_t left = flat_.op_memory[flat_.first[program_] + i].workspace;
  const auto add = [&](std::int64_t bytes) {
    if (bytes == 0 || bytes > left) return;
    const std::int32_t storage = add_storage(Storage::Kind::kWorkspace, bytes);
    layout_.storages.back().op = instruction.op;
    allocate(i, storage);
    touch(i, storage);
    left -= bytes;
  };
  for (std::int64_t block : blocks) add(block);
  add(left);
}

std::int32_t MemoryWriter::add_storage(Storage::Kind kind, std::int64_t bytes) {
  const auto storage = static_cast<std::int32_t>(layout_.storages.size());
  layout_.storages.push_back({.bytes = bytes, .program = program_, .kind = kind});
  last_touch_.resize(last_touch_.size() + kStreams, kNone);
  return storage;
}

void MemoryWriter::touch(std::int32_t instruction, std::int32_t storage) {
  const auto stream = static_cast<std::size_t>(flat_.steps[flat_.first[program_] + instruction].stream);
  last_touch_[static_cast<std::size_t>(storage - first_storage_) * kStreams + stream] = instruction;
}

}  // namespace

MemoryLayout::MemoryLayout(const Graph& graph, const Deployment& deployment, const FlatDeployment& flat) {
  MemoryWriter writer(graph, flat, *this);
  for (const Program& program : deployment.programs) writer.add(program);
}

MemoryUse use_of(const Graph& graph, const Storage& storage) {
  switch (storage.kind) {
    case Storage::Kind::kKept:
      return MemoryUse::kActivations;
    case Storage::Kind::kWorkspace:
      return MemoryUse::kWorkspaces;
    case Storage::Kind::kBucket:
    case Storage::Kind::kReceived:
      return MemoryUse::kCommunication;
    case Storage::Kind::kValue:
      break;
  }
  switch (graph.tensors[storage.tensor].role) {
    case TensorRole::kParameter:
      return MemoryUse::kWeights;
    case TensorRole::kOptimizerState:
      return MemoryUse::kOptimizerStates;
    case TensorRole::kActivation:
      return MemoryUse::kActivations;
    case TensorRole::kGradient:
      return MemoryUse::kGradients;
    case TensorRole::kInput:
    case TensorRole::kBuffer:
    case TensorRole::kConstant:
      break;
  }
  return MemoryUse::kInputs;
}

}  // namespace motley
