#include "runtime/version.h"

#include <torch/headeronly/version.h>

namespace motley {

std::string torch_version() { return TORCH_VERSION; }

}  // namespace motley
