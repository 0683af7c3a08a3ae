#include "cli/state_folder.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"

extern char** environ;

namespace motley {
namespace {

constexpr const char* kRemove = R"(read -r _; rm -rf -- "$0")";

// A shell that waits for the end of `input` and removes `folder`. In a session of its own, it outlives the terminal.
int start_remover(const std::filesystem::path& folder, int input, pid_t& remover) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&files, output, "/dev/null", O_WRONLY, 0);
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::array<std::string, 4> words{"sh", "-c", kRemove, folder.string()};
  const std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  const int error = ::posix_spawn(&remover, "/bin/sh", &files, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

StateFolder::StateFolder() {
  std::error_code failure;
  std::string name = (std::filesystem::temp_directory_path(failure) / "motley-XXXXXX").string();
  if (failure || ::mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorKind::kUnavailable, name + ": cannot be made; set TMPDIR to a folder that can be written");
  }
  path_ = name;
  std::array<int, 2> ends{};
  int error = ::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno;
  if (error == 0) {
    error = start_remover(path_, ends[0], remover_);
    ::close(ends[0]);
    if (error != 0) ::close(ends[1]);
  }
  if (error != 0) {
    std::filesystem::remove(path_, failure);
    throw Error(ErrorKind::kUnavailable, name + ": no process to remove it at the end (" + std::strerror(error) + ")");
  }
  hold_ = ends[1];
  ::fcntl(hold_, F_SETFD, 0);  // what is started from now on has it too
}

StateFolder::~StateFolder() {
  ::close(hold_);
  while (::waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace motley
