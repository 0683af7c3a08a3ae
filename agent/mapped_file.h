#pragma once

// A file's bytes, mapped for reading. Movable; the bytes stay where they are until the object dies.

#include <cstddef>
#include <filesystem>
#include <span>

namespace motley {

class MappedFile {
 public:
  // Throws Error(kNotFound) naming the path when it cannot be read.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace motley
