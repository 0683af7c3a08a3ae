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

// Makes the folder unless it is there, and removes halves that nobody writes any more. Throws Error(kUnavailable)
// naming it when no file can be made in it.
void make_output_folder(const std::filesystem::path& folder);

// A file that is being written beside its final path; gone again unless finished. That of a process that was killed
// stays, but unlocked (flock), so that it is known as one that nobody writes any more.
class HalfFile {
 public:
  // All throw Error(kUnavailable) naming `whole` when it cannot be written.
  explicit HalfFile(std::filesystem::path whole);
  HalfFile(HalfFile&& other) noexcept;
  ~HalfFile();

  void write(std::string_view content);
  void finish();  // to the disk, and over what `whole` was

  const std::filesystem::path& path() const { return half_; }  // where the content stands until it is finished

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path whole_;
  std::filesystem::path half_;  // empty once finished, or moved from
  int file_ = -1;
};

// Removes the halves in `folder` whose writers were killed.
void remove_left_halves(const std::filesystem::path& folder);

// This process's alone as long as the object lives.
class LockedFolder {
 public:
  // Makes the folder unless it is there. Throws Error(kUnavailable) naming it when another process has it.
  explicit LockedFolder(std::filesystem::path folder);
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace motley
