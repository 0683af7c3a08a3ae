#pragma once

// What nodes, switches and their devices can be called.

#include <string_view>

namespace motley {

// One word without commas (which separate names) and control characters (which play tricks on terminals).
bool is_name(std::string_view text);

// Throws Error(kInvalidInput) unless it is a name without "/", which is for a node's devices.
void check_node_name(std::string_view name);

}  // namespace motley
