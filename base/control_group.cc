#include "base/control_group.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace motley {
namespace {

bool lists(const std::string& words, const std::string& word) {
  return ("," + words + ",").find("," + word + ",") != std::string::npos;
}

// Where the controller of version 1, or version 2's only tree, is mounted; empty when it is not.
std::string mount_point(const std::string& root, const std::string& controller, bool version1) {
  std::ifstream mounts(root + "/proc/self/mounts");
  std::string line;
  while (std::getline(mounts, line)) {
    std::istringstream words(line);
    std::string device, point, type, options;
    words >> device >> point >> type >> options;
    if (version1 ? type == "cgroup" && lists(options, controller) : type == "cgroup2") return root + point;
  }
  return {};
}

// Calls visit(folder, version1) for this process's group of the controller and all above it.
template <class Visit>
void for_each_group(const std::string& root, const std::string& controller, Visit visit) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "1:cpu,cpuacct:/a/b", of version 2 "0::/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version1 = lists(controllers, controller);
    if (!version1 && !controllers.empty()) continue;
    const std::string mount = mount_point(root, controller, version1);
    if (mount.empty()) continue;
    for (std::filesystem::path group = line.substr(second + 1);; group = group.parent_path()) {
      visit(mount + group.string(), version1);
      if (group == group.parent_path()) break;
    }
  }
}

}  // namespace

double granted_cores(const std::string& root) {
  double least = INFINITY;
  for_each_group(root, "cpu", [&](const std::string& folder, bool version1) {
    double quota = 0, period = 0;
    if (version1) {
      std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;  // -1: none
      std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    } else {
      std::ifstream(folder + "/cpu.max") >> quota >> period;  // "max 100000" reads no number
    }
    if (quota > 0 && period > 0) least = std::min(least, quota / period);
  });
  return least;
}

Bytes granted_memory(const std::string& root) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for_each_group(root, "memory", [&](const std::string& folder, bool version1) {
    std::int64_t limit = 0;
    std::ifstream(folder + (version1 ? "/memory.limit_in_bytes" : "/memory.max")) >> limit;
    if (limit > 0) least = std::min(least, limit);
  });
  return Bytes(least);
}

ProcessMemory process_memory() {
  std::int64_t total = 0, resident = 0, of_files = 0;  // pages
  std::ifstream("/proc/self/statm") >> total >> resident >> of_files;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  return {Bytes(resident * page), Bytes((resident - of_files) * page)};
}

double granted_share(int threads) { return std::min(1.0, granted_cores() / threads); }

}  // namespace motley
