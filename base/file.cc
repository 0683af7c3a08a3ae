#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

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

constexpr const char* kHalf = ".half";

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
  if (is_special(path)) {
    std::ofstream stream(path, std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    stream.close();
    if (!stream) refuse(path, std::strerror(errno));
    return;
  }
  HalfFile file(behind_link(path));
  file.write(content);
  file.finish();
}

void check_can_write(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) refuse(path, "this is a folder, a file is wanted");
  if (!is_special(path)) static_cast<void>(HalfFile(behind_link(path)));
}

void make_output_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw Error(ErrorKind::kUnavailable, folder.string() + ": cannot be made (" + failure.message() + ")");
  remove_left_halves(folder);
  check_can_write(folder / "output");
}

HalfFile::HalfFile(std::filesystem::path whole) : whole_(std::move(whole)) {
  static std::atomic<int> counter{0};  // a process may write the same file twice at once
  while (true) {
    half_ = whole_.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(counter++) + kHalf;
    file_ = ::open(half_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) fail();
    ::flock(file_, LOCK_EX);
    struct stat status {};
    if (::fstat(file_, &status) != 0 || status.st_nlink > 0) return;
    ::close(file_);  // somebody took it for one that was left
  }
}

HalfFile::HalfFile(HalfFile&& other) noexcept
    : whole_(std::move(other.whole_)), half_(std::exchange(other.half_, {})), file_(std::exchange(other.file_, -1)) {}

HalfFile::~HalfFile() {
  if (!half_.empty()) ::unlink(half_.c_str());
  if (file_ >= 0) ::close(file_);
}

void HalfFile::write(std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file_, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

void HalfFile::finish() {
  if (::fsync(file_) != 0 || ::rename(half_.c_str(), whole_.c_str()) != 0) fail();
  half_.clear();
}

void HalfFile::fail() const { refuse(whole_, std::strerror(errno)); }

void remove_left_halves(const std::filesystem::path& folder) {
  std::error_code ignored;  // another process may remove them, too
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != kHalf || !entry.is_regular_file(ignored)) continue;
    const int file = ::open(entry.path().c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(file);
  }
}

LockedFolder::LockedFolder(std::filesystem::path folder) : path_(std::move(folder)) {
  make_output_folder(path_);
  file_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file_ < 0) refuse(path_, std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;  // not all file systems can
  ::close(file_);
  throw Error(ErrorKind::kUnavailable, path_.string() + ": another process keeps its state there");
}

LockedFolder::~LockedFolder() { ::close(file_); }

}  // namespace motley
