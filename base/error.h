#pragma once

// What went wrong, for a user to act on. A message names the thing (file and line, node, device or op) and says what to
// do. A plan that does not fit is not an error but a result with reasons; a broken invariant of ours is MOTLEY_CHECK.

#include <stdexcept>
#include <string>

namespace motley {

enum class ErrorKind {
  kInvalidInput,  // the user's file, option or data is wrong
  kNotFound,      // a file, device, node or op is not there
  kUnsupported,   // well-formed, but beyond what motley can do
  kUnavailable,   // a process, node or connection failed; trying again may help
  kInternal,      // a fault of motley itself
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);

}  // namespace motley

// For our own invariants, in every build type. `message` may be any std::string expression.
#define MOTLEY_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0) : ::motley::check_failed(#condition, __FILE__, __LINE__, (message)))
