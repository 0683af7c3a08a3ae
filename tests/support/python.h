#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace motley {

inline void run_shell(const std::string& arguments) {
  const char* python = std::getenv("MOTLEY_PYTHON");
  if (python == nullptr) throw std::runtime_error("MOTLEY_PYTHON is not set: run the tests by ctest");
  const std::string command = python + arguments;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

// Runs a script with the locked packages; a failure fails the test.
inline void run_python(const std::string& script, const std::string& argument) {
  run_shell(" -c '" + script + "' '" + argument + "'");
}

inline void run_python_file(const std::string& file, const std::vector<std::string>& arguments) {
  std::string text = " " + file;
  for (const std::string& argument : arguments) text += " '" + argument + "'";
  run_shell(text);
}

}  // namespace motley
