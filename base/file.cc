#include "base/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace motley {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  if (!stream || std::filesystem::is_directory(path) || !(content << stream.rdbuf())) {
    // An empty file makes the stream insertion fail, though there is nothing wrong with it.
    if (stream.is_open() && std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) == 0) return {};
    throw Error(ErrorKind::kNotFound, path.string() + ": cannot be read (" + std::strerror(errno) + ")");
  }
  return std::move(content).str();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path half = path.string() + ".tmp" + std::to_string(::getpid());
  std::ofstream stream(half, std::ios::binary);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  stream.close();
  std::error_code failure;
  if (stream) std::filesystem::rename(half, path, failure);
  if (!stream || failure) {
    const std::string why = failure ? failure.message() : std::strerror(errno);
    std::filesystem::remove(half, failure);
    throw Error(ErrorKind::kUnavailable, path.string() + ": cannot be written (" + why + ")");
  }
}

}  // namespace motley
