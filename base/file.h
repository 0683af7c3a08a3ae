#pragma once

// Files as whole things: a reader sees the old content or the new, never half of it.

#include <filesystem>
#include <string>
#include <string_view>

namespace motley {

// Throws Error(kNotFound) naming the path when it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Writes a neighbour file and renames it over `path`; on failure removes it and throws Error(kUnavailable).
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace motley
