#pragma once

#include <string>

namespace motley {

std::string torch_version();  // of the LibTorch that this was built with: "2.14.1"

}  // namespace motley
