#pragma once

// The programs that export_programs.py made.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace motley {

inline std::filesystem::path program(const std::string& name) {
  return std::filesystem::path(std::getenv("MOTLEY_TEST_PROGRAMS")) / (name + ".pt2");
}

}  // namespace motley
