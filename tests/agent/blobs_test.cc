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

TEST_F(BlobsTest, ANameCannotLeaveTheFolder) { EXPECT_THROW(blobs_.path("../" + std::string(61, 'a')), Error); }

}  // namespace
}  // namespace motley
