#include "base/control_group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

class ControlGroup : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double granted() const { return granted_cores(folder_.path().string()); }
  std::int64_t memory() const { return granted_memory(folder_.path().string()).value; }
  TemporaryFolder folder_;
};

TEST_F(ControlGroup, Version1) {
  write("proc/self/mounts",
        "tmpfs /cg tmpfs rw 0 0\ncgroup /cg/cpuset cgroup rw,cpuset 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\n");
  write("proc/self/cgroup", "4:cpuset:/box/B\n1:cpu,cpuacct:/box/B\n");
  write("cg/cpu/box/B/cpu.cfs_quota_us", "4000\n");
  write("cg/cpu/box/B/cpu.cfs_period_us", "10000\n");
  EXPECT_DOUBLE_EQ(granted(), 0.4);
  write("cg/cpu/box/cpu.cfs_quota_us", "2000\n");  // the group above grants less
  write("cg/cpu/box/cpu.cfs_period_us", "10000\n");
  EXPECT_DOUBLE_EQ(granted(), 0.2);
}

TEST_F(ControlGroup, Version2) {
  write("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
  write("proc/self/cgroup", "0::/box/B\n");
  write("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/box/B/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(granted(), 1.5);
}

TEST_F(ControlGroup, MemoryOfBothVersions) {
  write("proc/self/mounts", "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup2 /cg/unified cgroup2 rw 0 0\n");
  write("proc/self/cgroup", "4:memory:/box/B\n0::/box\n");
  write("cg/memory/box/B/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(memory(), std::int64_t{2} << 30);
  write("cg/unified/box/memory.max", "1073741824\n");
  EXPECT_EQ(memory(), std::int64_t{1} << 30);
  write("cg/unified/box/memory.max", "max\n");
  EXPECT_EQ(memory(), std::int64_t{2} << 30);
}

TEST_F(ControlGroup, NoLimit) {
  EXPECT_EQ(memory(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(granted(), INFINITY);
  write("proc/self/mounts", "cgroup /cg/cpu cgroup rw,cpu 0 0\n");
  write("proc/self/cgroup", "1:cpu:/\n");
  write("cg/cpu/cpu.cfs_quota_us", "-1\n");
  write("cg/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(granted(), INFINITY);
}

}  // namespace
}  // namespace motley
