#include "base/file.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;

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
}

TEST(File, FolderInAFilesPlaceIsNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(support::error_of([&] { read_file(folder.path()); }), HasSubstr("this is a folder"));
  EXPECT_THAT(support::error_of([&] { write_file_atomically(folder.path(), "content"); }),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("Is a directory")));
  EXPECT_TRUE(std::filesystem::is_directory(folder.path()));
}

TEST(File, TellsBeforehandWhatCannotBeWritten) {
  const TemporaryFolder folder;
  check_can_write(folder / "new");
  write_file_atomically(folder / "old", "content");
  check_can_write(folder / "old");
  EXPECT_EQ(read_file(folder / "old"), "content");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  EXPECT_THAT(support::error_of([&] { check_can_write(folder.path()); }), HasSubstr("this is a folder"));
  EXPECT_THAT(support::error_of([&] { check_can_write(folder / "none" / "x"); }), HasSubstr("No such file"));
  make_output_folder(folder / "a" / "b");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a" / "b"));
  EXPECT_THAT(support::error_of([&] { make_output_folder(folder / "old"); }), HasSubstr("old: cannot be made"));
  EXPECT_THAT(support::error_of([&] { make_output_folder("/proc"); }), HasSubstr("cannot be written"));
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(HalfFile, IsGoneUnlessFinished) {
  const TemporaryFolder folder;
  {
    HalfFile file(folder / "x");
    file.write("content");
    EXPECT_EQ(read_file(file.path()), "content");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  HalfFile file(folder / "x");
  file.write("content");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  file.finish();
  EXPECT_EQ(read_file(folder / "x"), "content");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(HalfFile, ThatOfAKilledProcessIsRemovedAndNoOther) {
  const TemporaryFolder folder;
  const pid_t writer = ::fork();
  if (writer == 0) {
    HalfFile file(folder / "x");
    file.write("content");
    ::pause();
  }
  while (files_in(folder.path()) < 1) ::usleep(1000);
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  HalfFile mine(folder / "y");
  EXPECT_EQ(files_in(folder.path()), 2U);
  make_output_folder(folder.path());
  EXPECT_EQ(files_in(folder.path()), 1U);
  mine.finish();
  EXPECT_TRUE(std::filesystem::exists(folder / "y"));
}

TEST(LockedFolder, IsOneProcesssAlone) {
  const TemporaryFolder folder;
  {
    const LockedFolder first(folder / "state");
    EXPECT_THAT(support::error_of([&] { LockedFolder second(folder / "state"); }, ErrorKind::kUnavailable),
                HasSubstr("state: another process keeps its state there"));
  }
  const LockedFolder second(folder / "state");
}

TEST(File, LinkStaysALink) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  std::filesystem::create_symlink("file", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "file"), "new");
}

TEST(File, WhatIsNoPlainFileIsWrittenToAndStays) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { std::ifstream(pipe) >> read; });
  write_file_atomically(pipe, "content");
  reader.join();
  EXPECT_EQ(read, "content");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));

  std::filesystem::create_symlink("/dev/full", folder / "full");
  EXPECT_THAT(support::error_of([&] { write_file_atomically(folder / "full", "content"); }),
              HasSubstr("No space left"));
  EXPECT_TRUE(std::filesystem::is_character_file(folder / "full"));
}

}  // namespace
}  // namespace motley
