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

// Pages of a mapped file that were read count as the process's memory until the system takes them back. This gives back
// those that lie within `bytes` as a whole; whoever reads them again gets them from the file.
void give_back(std::span<const std::byte> bytes);

}  // namespace motley
