#pragma once

// Samples cut out of a tensor and joined again, for tensors whose batch dimension is outer * B * inner.

#include <ATen/core/Tensor.h>

#include <span>

#include "graph/graph.h"

namespace motley {

// A copy of samples [begin, end) of a tensor that holds `batch` of them.
at::Tensor slice_batch(const at::Tensor& tensor, const BatchLayout& layout, std::int64_t begin, std::int64_t end,
                       std::int64_t batch);

// Parts in order of samples; batches[i] is how many parts[i] holds.
at::Tensor concat_batch(std::span<const at::Tensor> parts, const BatchLayout& layout,
                        std::span<const std::int64_t> batches);

}  // namespace motley
