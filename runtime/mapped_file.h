#pragma once

// A file's bytes, mapped for reading. Movable; the bytes stay where they are until the object dies.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace motley {

class MappedFile {
 public:
  // Throws Error(kNotFound) naming the path when it cannot be read.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Pages that were read through bytes() count as the process's memory until the system wants them back, with many
  // around them that nobody read. This copies a part of bytes() without such. Throws Error(kUnavailable) naming the
  // path.
  void copy(std::span<const std::byte> part, std::span<std::byte> to) const;
  // Takes the pages within a part of bytes() out of the process; who reads them again gets them from the file.
  static void give_back(std::span<const std::byte> part);

 private:
  void close();

  std::string path_;
  int file_ = -1;
  std::span<const std::byte> bytes_;
};

}  // namespace motley
