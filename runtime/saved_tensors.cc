#include "runtime/saved_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <mutex>

#include "base/error.h"
#include "runtime/device_tensor.h"

namespace motley {

struct SavedTensors::Slot {
  at::Tensor tensor;  // of no elements while it is let go: some ops look at what they do not need
  std::int32_t place = -1;
  // As they were: of the tensor of that place, and of this one relative to it.
  std::vector<std::int64_t> place_sizes, place_strides, sizes, strides;
  std::int64_t offset = 0;

  void clear() { tensor = at::empty({0}, tensor.options()); }
};

namespace {

using Slots = std::vector<SavedTensors::Slot>;
thread_local std::shared_ptr<Slots> recording;

class Hooks : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(std::shared_ptr<Slots> slots) : slots_(std::move(slots)) {}
  // What autograd knows of the tensor stays with it: here it would hold the op's own nodes.
  void call_pack_hook(const at::Tensor& tensor) override {
    place_ = slots_->size();
    slots_->push_back({.tensor = tensor.tensor_data()});
  }
  at::Tensor call_unpack_hook() override { return (*slots_)[place_].tensor; }

 private:
  std::shared_ptr<Slots> slots_;
  std::size_t place_ = 0;
};

// Autograd asks its engine for hooks; nobody runs this one.
class Engine : public torch::autograd::Engine {
 public:
  static torch::autograd::Engine& get() {
    static auto* const engine = new Engine;
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return recording == nullptr ? nullptr : std::make_unique<Hooks>(recording);
  }
};

}  // namespace

SavedTensors::SavedTensors() : slots_(std::make_shared<Slots>()) {}

SavedTensors::Recording::Recording(SavedTensors& into) {
  static std::once_flag once;
  std::call_once(once, [] { torch::autograd::set_default_engine_stub(&Engine::get); });
  recording = into.slots_;
}
SavedTensors::Recording::~Recording() { recording = nullptr; }

void SavedTensors::let_go(std::int32_t place, const at::Tensor& tensor) {
  for (Slot& slot : *slots_) {
    if (!share_storage(slot.tensor, tensor)) continue;
    slot.place = place;
    slot.place_sizes = tensor.sizes().vec();
    slot.place_strides = tensor.strides().vec();
    slot.sizes = slot.tensor.sizes().vec();
    slot.strides = slot.tensor.strides().vec();
    slot.offset = slot.tensor.storage_offset() - tensor.storage_offset();
    slot.clear();
  }
}

void SavedTensors::put_back(std::int32_t place, const at::Tensor& tensor) {
  at::Tensor laid_out;
  for (Slot& slot : *slots_) {
    if (slot.place != place) continue;
    MOTLEY_CHECK(tensor.sizes() == slot.place_sizes, "a tensor that came back has another size");
    if (!laid_out.defined()) {
      laid_out = tensor.strides() == slot.place_strides
                     ? tensor
                     : at::empty_strided(slot.place_sizes, slot.place_strides, tensor.options()).copy_(tensor);
    }
    slot.tensor = laid_out.as_strided(slot.sizes, slot.strides, laid_out.storage_offset() + slot.offset);
  }
}

void SavedTensors::let_go_again() {
  for (Slot& slot : *slots_) {
    if (slot.place >= 0) slot.clear();
  }
}

}  // namespace motley
