#pragma once

#include <string>

#include "graph/graph.h"

namespace motley {

// SHA-256, in hex, of the graph's serialized form without its fingerprint.
std::string fingerprint_of(const Graph& graph);

}  // namespace motley
