#pragma once

// What control groups grant this process at most, and what it has of it. Granted is the least of the limits of its
// group and of all groups above it, of version 1 or 2. `root` stands before /proc and the mount points, for tests.

#include <string>

#include "base/units.h"

namespace motley {

double granted_cores(const std::string& root = "");  // infinity when there is no limit
Bytes granted_memory(const std::string& root = "");  // the largest number there is when there is no limit
double granted_share(int threads);                   // of so many cores: at most 1

struct ProcessMemory {
  Bytes resident;
  Bytes own;  // of that, what is no file's (program and libraries), which the kernel could take back
};
ProcessMemory process_memory();  // of this process

}  // namespace motley
