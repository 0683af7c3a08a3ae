#pragma once

// The tensors that LibTorch's autograd saves of one op for its backward ops, by its hooks for saved variables: so that
// those which come from elsewhere in the backward pass are not held from the forward pass on.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace motley {

class SavedTensors {
 public:
  SavedTensors();

  // While it lives, `into` receives what ops on this thread save.
  class Recording {
   public:
    explicit Recording(SavedTensors& into);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
  };

  // No longer holds what shares the storage of `tensor`, an input or output of the op, known from now on by `place`.
  void let_go(std::int32_t place, const at::Tensor& tensor);
  // Puts back what place stands for: the same elements, in whatever storage and layout. Throws Error(kInternal) when it
  // has another size.
  void put_back(std::int32_t place, const at::Tensor& tensor);
  // Lets go of what was put back.
  void let_go_again();

  struct Slot;

 private:
  std::shared_ptr<std::vector<Slot>> slots_;  // also of the hooks
};

}  // namespace motley
