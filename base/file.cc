#include "base/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace motley {
namespace {

// A pipe, a terminal, a device.
bool is_special(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorKind::kUnavailable, path.string() + ": cannot be written (" + why + ")");
}

// Where the new content of `path` waits to be whole.
std::filesystem::path half_of(const std::filesystem::path& path) {
  return path.string() + ".tmp" + std::to_string(::getpid());
}

// Of a link, the file that it leads to is replaced, not the link.
std::filesystem::path behind_link(const std::filesystem::path& path) {
  return std::filesystem::is_symlink(path) ? std::filesystem::weakly_canonical(path) : path;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    throw Error(ErrorKind::kNotFound, path.string() + ": this is a folder, a file is wanted");
  }
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  if (!stream || !(content << stream.rdbuf())) {
    // An empty file makes the stream insertion fail, though there is nothing wrong with it.
    if (stream.is_open() && std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) == 0) return {};
    throw Error(ErrorKind::kNotFound, path.string() + ": cannot be read (" + std::strerror(errno) + ")");
  }
  return std::move(content).str();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const bool in_place = is_special(path);
  const std::filesystem::path whole = in_place ? path : behind_link(path);
  const std::filesystem::path written = in_place ? path : half_of(whole);
  std::ofstream stream(written, std::ios::binary);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  stream.close();
  if (in_place && stream) return;
  std::error_code failure;
  if (stream) std::filesystem::rename(written, whole, failure);
  if (stream && !failure) return;
  const std::string why = failure ? failure.message() : std::strerror(errno);
  if (!in_place) std::filesystem::remove(written, failure);
  refuse(path, why);
}

void check_can_write(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) refuse(path, "this is a folder, a file is wanted");
  if (is_special(path)) return;
  const std::filesystem::path half = half_of(behind_link(path));
  if (!std::ofstream(half)) refuse(path, std::strerror(errno));
  std::filesystem::remove(half);
}

void make_output_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw Error(ErrorKind::kUnavailable, folder.string() + ": cannot be made (" + failure.message() + ")");
  check_can_write(folder / "output");
}

}  // namespace motley
