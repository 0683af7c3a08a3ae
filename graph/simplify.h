#pragma once

// Calls that need no op, and calls that are better said otherwise.

#include <optional>

#include "graph/forward_builder.h"

namespace motley {

enum class Shortcut {
  kNone,       // the op must run
  kSame,       // its result is its first input, memory included
  kEqualCopy,  // its result is new memory with the same values, dtype, shape and strides as its first input
};

// What the call's single output has to do with its first input. `output` is what the program says of it.
Shortcut shortcut(const Call& call, const TensorMeta& output, const ForwardBuilder& builder);

// Replaces ops that only look at another tensor's shape or dtype (expand_as, type_as) by those that are told it, and
// transformers' grouped product in Python by ATen's own; lets batch and layer norms use cuDNN, which torch.export turns
// off while it traces.
void normalize(Call& call, const std::optional<TensorMeta>& output);

}  // namespace motley
