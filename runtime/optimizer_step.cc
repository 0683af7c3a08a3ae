#include "runtime/optimizer_step.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include "base/error.h"

namespace motley {
void step_optimizer(const OptimizerOptions& options, const Op& op, std::span<const at::Tensor> inputs) {
  const bool sgd = options.kind == OptimizerOptions::Kind::kSgd;
  const std::size_t states = sgd ? (options.momentum != 0 ? 1 : 0) : 3;
  MOTLEY_CHECK(inputs.size() == 2 + states, "states of op " + op.name);
  const at::Tensor& parameter = inputs[0];
  const at::Tensor gradient = inputs[1].contiguous();  // the fused kernels walk both as flat arrays
  MOTLEY_CHECK(parameter.is_contiguous(), "a parameter that is not contiguous in op " + op.name);
  if (sgd) {
    // With a zero buffer the first step is like any other: buffer = momentum * 0 + gradient.
    const at::TensorList buffers(inputs.data() + 2, states);
    at::_fused_sgd_(parameter, gradient, buffers, options.weight_decay, options.momentum, options.learning_rate,
                    /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
    return;
  }
  const at::Tensor& step = inputs[4];
  step.add_(1);
  const auto fused = [&](auto call) {
    call(parameter, gradient, inputs[2], inputs[3], {}, step, options.learning_rate, options.beta1, options.beta2,
         options.weight_decay, options.epsilon, /*amsgrad=*/false, /*maximize=*/false, {}, {});
  };
  if (options.kind == OptimizerOptions::Kind::kAdam) {
    fused(at::_ops::_fused_adam_::call);
  } else {
    fused(at::_ops::_fused_adamw_::call);
  }
}

}  // namespace motley
