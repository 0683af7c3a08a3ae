#pragma once

// The training graph as bytes (proto/graph.proto, docs/graph-format.md) and back, without loss. The bytes are the same
// for equal graphs.

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace motley {

namespace proto {
class Graph;
}

inline constexpr std::uint32_t kGraphFormatVersion = 1;

proto::Graph to_proto(const Graph& graph);
// Also finishes the graph. Throws Error(kInvalidInput) for another version, numbers out of range or broken references.
Graph graph_from_proto(const proto::Graph& message);

std::string serialize(const Graph& graph);
// `source` names the file or the sender in errors.
Graph deserialize_graph(std::string_view bytes, const std::string& source);

}  // namespace motley
