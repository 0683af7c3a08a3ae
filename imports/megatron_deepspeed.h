#pragma once

// What is known of Megatron-DeepSpeed, which ran the plans that Sailor's authors measured (github.com/eth-easl/sailor:
// deepspeed/pipe_engine.py, sailor/Planner/simulations/simulator.py; "runtime/pipe" of DeepSpeed; Megatron-LM's
// transformer.py and cross_entropy.py). Facts of its source, none of them fitted to a measurement.
//
//  - Its pipeline is 1F1B with p - s micro-batches ahead (DeepSpeed's TrainSchedule). Sends and receives stand between
//    the passes on one stream, so compute waits for them. Every GPU of a tensor-parallel group is
//    taken to send the whole activations, of which all have a copy, to its counterpart (docs/validate.md).
//  - Gradients are reduced after the last micro-batch, in buckets of 500 million values (MEMORY_OPT_ALLREDUCE_SIZE).
//  - Attention without a fused kernel (float32): the scores, heads / tp * sequence^2 values a sample, are multiplied
//    into a buffer that stays (get_global_memory_buffer), and on the way back the gradients of the softmax's output and
//    of its input are there at once. What PyTorch's allocator took for these stays reserved, and is of no use for
//    blocks of other sizes: so a stage with such layers always holds three times the scores.
//  - What a GPU holds beside tensors, as nvidia-smi counts it: Sailor's authors state 4.76 GB of loaded kernels and
//    0.3 GB more for the GH200 machine, and for others 2 GB, with tensor parallelism 3 GB.

#include <optional>
#include <string>

#include "imports/profile_costs.h"

namespace motley::megatron_deepspeed {

inline constexpr const char* kSchedule = "pipedream-flush";
inline constexpr Bytes kBucket{std::int64_t{500'000'000} * 4};
inline constexpr std::int64_t kAdamStates = 2;  // float32, as the weights

// What the sizes of the attention scores follow from.
struct Transformer {
  std::int64_t blocks = 0;  // layers 1 to `blocks`, behind the embedding
  std::int64_t heads = 0;
  std::int64_t sequence = 0;
};

// Per sample, on one GPU.
inline Bytes attention_workspace(const Transformer& model, std::int64_t tensor_parallel) {
  return Bytes(3 * 4 * model.heads * model.sequence * model.sequence / tensor_parallel);
}

inline Bytes context(const std::string& gpu, std::int64_t tensor_parallel) {
  constexpr std::int64_t kMega = 1'000'000;
  if (gpu.starts_with("GH")) return Bytes(5060 * kMega);
  return Bytes((tensor_parallel > 1 ? 3000 : 2000) * kMega);
}

}  // namespace motley::megatron_deepspeed
