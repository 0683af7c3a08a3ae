#include "base/file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace motley {
namespace {

TEST(File, WritesWholeAndReadsBack) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "motley_file_test";
  for (const char* content : {"", "one", "two\n"}) {
    write_file_atomically(path, content);
    EXPECT_EQ(read_file(path), content);
  }
  std::filesystem::remove(path);
}

TEST(File, FailureLeavesNothing) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "motley_no_such_folder";
  EXPECT_THROW(write_file_atomically(folder / "x", "content"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_THROW(read_file(folder), Error);
  EXPECT_THROW(read_file(testing::TempDir()), Error);
}

}  // namespace
}  // namespace motley
