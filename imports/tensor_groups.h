#pragma once

// Tensor-parallel groups of GPUs, as profiles of whole layers at a degree know them.

#include "proto/cluster.h"

namespace motley {

// The cluster with every `degree` neighbouring GPUs of a kind on a node as one device, "n0/0-3". It has the memory and
// the links of one GPU, as the layers' sizes and messages at a degree are those of one GPU: all GPUs of a group do the
// same at once, each with its counterpart. So what GPUs share, a link between nodes and switches, yields a group the
// degree's part. GPUs that are left over stay out. At degree 1 the same cluster. Throws Error(kInvalidInput) when no
// node has that many GPUs of a kind.
Cluster in_tensor_groups(const Cluster& gpus, std::int64_t degree);

// Whether any node has that many GPUs of a kind.
bool has_tensor_groups(const Cluster& gpus, std::int64_t degree);

}  // namespace motley
