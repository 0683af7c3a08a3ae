#pragma once

// Files as whole things: a reader sees the old content or the new, never half of it.

#include <filesystem>
#include <string>
#include <string_view>

namespace motley {

// Throws Error(kNotFound) naming the path when it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Writes a neighbour file and renames it over `path`, or over what `path` links to; on failure removes it and throws
// Error(kUnavailable). A pipe or a device (/dev/stdout) is written to as it is.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Before work whose result goes there: throws as write_file_atomically would. Leaves nothing behind.
void check_can_write(const std::filesystem::path& path);

// Makes the folder unless it is there, and throws Error(kUnavailable) naming it when no file can be made in it.
void make_output_folder(const std::filesystem::path& folder);

}  // namespace motley
