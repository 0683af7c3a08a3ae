#include "simulator/memory_layout.h"

#include <algorithm>

namespace motley {

MemoryLayout::MemoryLayout(const Graph& graph, const Deployment& deployment, const FlatDeployment& flat) {
  const std::int32_t count = flat.count();
  std::vector<std::int32_t> storage_of(flat.first_value.back(), kNone);
  for (std::size_t p = 0; p < deployment.programs.size(); ++p) {
    const std::vector<Value>& values = deployment.programs[p].values;
    std::vector<std::int32_t> unreleased(values.size(), 0);  // per owner: values that no instruction releases
    const auto owner = [&](ValueId value) {
      while (values[value].alias_of != kNone) value = values[value].alias_of;
      return value;
    };
    for (std::size_t v = 0; v < values.size(); ++v) {
      const ValueId root = owner(static_cast<ValueId>(v));
      ++unreleased[root];
      if (root != static_cast<ValueId>(v)) continue;
      storage_of[flat.first_value[p] + v] = static_cast<std::int32_t>(storages.size());
      Storage storage;
      storage.bytes = values[v].bytes.value;
      storage.program = static_cast<std::int32_t>(p);
      storage.tensor = values[v].tensor;
      storage.from_start = values[v].persistent;
      storages.push_back(storage);
    }
    for (std::size_t v = 0; v < values.size(); ++v) {
      storage_of[flat.first_value[p] + v] = storage_of[flat.first_value[p] + owner(static_cast<ValueId>(v))];
    }
    for (ValueId value : deployment.programs[p].inputs)
      storages[storage_of[flat.first_value[p] + value]].from_start = true;
    for (std::int32_t i = flat.first[p]; i < flat.first[p + 1]; ++i) {
      for (ValueId value : flat.instructions[i]->releases) --unreleased[owner(value)];
    }
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (values[v].alias_of != kNone) continue;
      storages[storage_of[flat.first_value[p] + v]].freed = !values[v].persistent && unreleased[v] == 0;
    }
  }

  // What a forward op keeps lives until the last of its backward ops on the device; without any it keeps nothing.
  std::vector<std::int32_t> kept_by(count, kNone);  // per forward and backward instruction: the storage
  std::vector<std::int32_t> own(count, kNone);      // per instruction: its workspace, bucket or received state
  bucket.assign(count, kNone);
  const auto add_storage = [&](Storage::Kind kind, std::int32_t p, std::int64_t size) -> Storage& {
    Storage storage;
    storage.kind = kind;
    storage.program = p;
    storage.bytes = size;
    storages.push_back(storage);
    return storages.back();
  };
  std::vector<std::int32_t> forward_at(graph.ops.size(), kNone);
  for (std::size_t p = 0; p < deployment.programs.size(); ++p) {
    std::fill(forward_at.begin(), forward_at.end(), kNone);
    const auto program_index = static_cast<std::int32_t>(p);
    const std::vector<Value>& values = deployment.programs[p].values;
    for (std::int32_t i = flat.first[p]; i < flat.first[p + 1]; ++i) {
      const Instruction& instruction = *flat.instructions[i];
      const auto next = static_cast<std::int32_t>(storages.size());
      if (instruction.kind == InstructionKind::kAllReduce && instruction.inputs.size() > 1) {
        std::int64_t size = 0;
        for (ValueId value : instruction.inputs) size += values[value].bytes.value;
        add_storage(Storage::Kind::kBucket, program_index, size);
        own[i] = bucket[i] = next;
      }
      if (instruction.kind == InstructionKind::kReceive && values[instruction.outputs[0]].alias_of != kNone) {
        // New weights wait beside the old ones until the iteration ends.
        const Value& received = values[instruction.outputs[0]];
        add_storage(Storage::Kind::kValue, program_index, received.bytes.value).tensor = received.tensor;
        storages.back().freed = false;
        own[i] = next;
      }
      if (instruction.kind != InstructionKind::kCompute) continue;
      if (flat.op_memory[i].workspace > 0) {
        add_storage(Storage::Kind::kWorkspace, program_index, flat.op_memory[i].workspace).op = instruction.op;
        own[i] = next;
      }
      const Op& op = graph.ops[instruction.op];
      if (op.kind == OpKind::kForward) forward_at[instruction.op] = i;
      if (!op.is_backward() || forward_at[op.forward] == kNone) continue;
      const std::int32_t forward = forward_at[op.forward];
      if (flat.op_memory[forward].kept == 0) continue;
      if (kept_by[forward] == kNone) {
        kept_by[forward] = static_cast<std::int32_t>(storages.size());
        add_storage(Storage::Kind::kKept, program_index, flat.op_memory[forward].kept).op = op.forward;
      }
      kept_by[i] = kept_by[forward];
    }
  }

  const auto for_each_touch = [&](auto&& visit) {
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t* storage = storage_of.data() + flat.first_value[flat.program[i]];
      for (const std::vector<ValueId>* list :
           {&flat.instructions[i]->inputs, &flat.instructions[i]->outputs, &flat.instructions[i]->releases}) {
        for (ValueId value : *list) {
          if (value != kNone) visit(i, storage[value]);
        }
      }
      if (kept_by[i] != kNone) visit(i, kept_by[i]);
      if (own[i] != kNone) visit(i, own[i]);
    }
  };
  const auto for_each_allocation = [&](auto&& visit) {
    for (std::int32_t i = 0; i < count; ++i) {
      const Program& code = deployment.programs[flat.program[i]];
      for (ValueId value : flat.instructions[i]->outputs) {
        if (value == kNone || code.values[value].alias_of != kNone || code.values[value].persistent) continue;
        visit(i, storage_of[flat.first_value[flat.program[i]] + value]);
      }
      const bool forward = kept_by[i] != kNone && !graph.ops[flat.instructions[i]->op].is_backward();
      if (forward) visit(i, kept_by[i]);
      if (own[i] != kNone) visit(i, own[i]);
    }
  };
  touches = FlatLists(count);
  for_each_touch([&](std::int32_t i, std::int32_t storage) {
    touches.count(i);
    ++storages[storage].users;
  });
  touches.lay_out();
  for_each_touch([&](std::int32_t i, std::int32_t storage) { touches.add(i, storage); });
  allocates = FlatLists(count);
  for_each_allocation([&](std::int32_t i, std::int32_t) { allocates.count(i); });
  allocates.lay_out();
  for_each_allocation([&](std::int32_t i, std::int32_t storage) { allocates.add(i, storage); });
}

}  // namespace motley
