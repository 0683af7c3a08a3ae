#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace motley {

// Runs a script with the locked packages; a failure fails the test.
inline void run_python(const std::string& script, const std::string& argument) {
  const char* python = std::getenv("MOTLEY_PYTHON");
  if (python == nullptr) throw std::runtime_error("MOTLEY_PYTHON is not set: run the tests by ctest");
  const std::string command = std::string(python) + " -c '" + script + "' '" + argument + "'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

}  // namespace motley
