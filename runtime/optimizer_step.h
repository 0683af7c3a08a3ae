#pragma once

// One parameter's optimizer step, as torch.optim does it, in LibTorch's fused kernels.

#include <ATen/core/Tensor.h>

#include <span>

#include "graph/graph.h"

namespace motley {

// `op` is a kUpdate, `inputs` stand as in Op::inputs: parameter, gradient, states. States: of SGD with momentum the
// buffer, zero before the first step; of Adam and AdamW exp_avg, exp_avg_sq and step (a float32 scalar: steps done so
// far), all zero before the first. Parameter and states are written.
void step_optimizer(const OptimizerOptions& options, const Op& op, std::span<const at::Tensor> inputs);

}  // namespace motley
