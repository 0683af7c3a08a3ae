#pragma once

// The JSON schema of torch.export's files, as LibTorch's own generated header declares it. Slow to compile: for the
// importer's own files only.

#include <torch/csrc/utils/generated_serialization_types.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

namespace motley {
namespace schema = torch::_export;
}  // namespace motley
