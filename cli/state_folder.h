#pragma once

// A new folder for what lives as long as this process and those that it starts.

#include <sys/types.h>

#include <filesystem>

namespace motley {

class StateFolder {
 public:
  // Makes it where TMPDIR says. Throws Error(kUnavailable) when it cannot be made.
  StateFolder();
  // Removes it. So does a process apart when this one dies before, and all that it started have ended.
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int hold_ = -1;  // a pipe that the remover reads until nobody could write to it
  pid_t remover_ = -1;
};

}  // namespace motley
