#pragma once

// Ids of the graph and the cluster are signed, so that kNone is one; places in a vector are not.

#include <cstddef>
#include <cstdint>

namespace motley {

constexpr std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

}  // namespace motley
