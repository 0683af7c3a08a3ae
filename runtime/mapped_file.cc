#include "runtime/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace motley {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const auto fail = [&](int error) {
    close();
    throw Error(ErrorKind::kNotFound, path_ + ": cannot be read (" + std::strerror(error) + ")");
  };
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail(errno);
  struct stat status {};
  if (::fstat(file_, &status) != 0) fail(errno);
  if (!S_ISREG(status.st_mode)) fail(EISDIR);
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_, 0);
  if (start == MAP_FAILED) fail(errno);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::close() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (file_ >= 0) ::close(file_);
  bytes_ = {};
  file_ = -1;
}

void MappedFile::copy(std::span<const std::byte> part, std::span<std::byte> to) const {
  MOTLEY_CHECK(part.size() == to.size(), "room for a part of a file");
  std::size_t done = 0;
  while (done < to.size()) {
    const auto offset = static_cast<off_t>(part.data() - bytes_.data()) + static_cast<off_t>(done);
    const ssize_t count = ::pread(file_, to.data() + done, to.size() - done, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(ErrorKind::kUnavailable,
                  path_ + ": cannot be read (" + (count < 0 ? std::strerror(errno) : "it has become shorter") + ")");
    }
    done += static_cast<std::size_t>(count);
  }
}

void MappedFile::give_back(std::span<const std::byte> part) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(part.data()) % page) % page;
  if (part.size() < before + page) return;
  ::madvise(const_cast<std::byte*>(part.data()) + before, (part.size() - before) / page * page, MADV_DONTNEED);
}

}  // namespace motley
