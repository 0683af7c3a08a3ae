#include "agent/blobs.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

class BlobsTest : public testing::Test {
 protected:
  // printf abc | sha256sum
  static constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  // A file of a hundred bytes whose name consists of `digit`, last used so long ago.
  void put(char digit, std::chrono::minutes ago) {
    const auto file = blobs_.path(std::string(64, digit));
    write_file_atomically(file, std::string(100, 'x'));
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - ago);
  }
  std::string there() const {
    std::set<char> digits;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "blobs")) {
      digits.insert(entry.path().filename().string().front());
    }
    return {digits.begin(), digits.end()};
  }

  TemporaryFolder folder_;
  Blobs blobs_{folder_ / "blobs"};
};

TEST_F(BlobsTest, HashesAFile) {
  write_file_atomically(folder_ / "abc", "abc");
  EXPECT_EQ(sha256_of_file(folder_ / "abc"), kAbc);
}

TEST_F(BlobsTest, ABlobIsThereOnceFinished) {
  Blobs::Writer writer(blobs_, kAbc);
  writer.append("ab");
  writer.append("c");
  EXPECT_FALSE(blobs_.has(kAbc));
  writer.finish();
  EXPECT_EQ(read_file(blobs_.path(kAbc)), "abc");
}

TEST_F(BlobsTest, RefusesDamagedContentAndLeavesNothing) {
  {
    Blobs::Writer writer(blobs_, kAbc);
    writer.append("abd");
    EXPECT_THROW(writer.finish(), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "blobs"));
}

TEST_F(BlobsTest, TrimmingRemovesTheLeastRecentlyUsedFirst) {
  using std::chrono::minutes;
  put('1', minutes(300));
  put('2', minutes(500));
  put('3', minutes(400));
  blobs_.trim(Bytes(300));
  EXPECT_EQ(there(), "123");
  blobs_.trim(Bytes(299));
  EXPECT_EQ(there(), "13");
  EXPECT_TRUE(blobs_.has(std::string(64, '3')));  // now it is the last used
  blobs_.trim(Bytes(100));
  EXPECT_EQ(there(), "3");
}

TEST_F(BlobsTest, TrimmingSparesWhatIsNeededOrInUse) {
  put('1', std::chrono::minutes(300));
  put('2', std::chrono::minutes(200));
  put('3', std::chrono::minutes(1));
  blobs_.trim(Bytes(0), {std::string(64, '1')});
  EXPECT_EQ(there(), "13");
}

TEST_F(BlobsTest, ANameCannotLeaveTheFolder) { EXPECT_THROW(blobs_.path("../" + std::string(61, 'a')), Error); }

}  // namespace
}  // namespace motley
