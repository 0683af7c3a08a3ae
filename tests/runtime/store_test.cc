#include "runtime/store.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

// Every store keeps the same promises.
class StoreTest : public testing::TestWithParam<const char*> {
 protected:
  TemporaryFolder folder_;
  std::shared_ptr<Store> store_ =
      GetParam() == std::string("memory") ? make_memory_store() : make_file_store(folder_ / "new");
};

TEST_P(StoreTest, KeepsAnyBytes) {
  const std::string value("a\0\xff/\n", 5);
  store_->set("rank 1/address: [::1]", value);
  EXPECT_EQ(store_->get("rank 1/address: [::1]", Seconds(0)), value);
}

TEST_P(StoreTest, TellsKeysApart) {
  store_->set("a/b", "1");
  store_->set("a_2fb", "2");
  EXPECT_EQ(store_->get("a/b", Seconds(0)), "1");
  EXPECT_EQ(store_->get("a_2fb", Seconds(0)), "2");
}

TEST_P(StoreTest, TakesTheLastValue) {
  store_->set("key", "old");
  store_->set("key", "");
  EXPECT_EQ(store_->get("key", Seconds(0)), "");
}

TEST_P(StoreTest, GivesUpAfterTheTimeout) {
  EXPECT_EQ(store_->get("absent", Seconds(0)), std::nullopt);
  EXPECT_EQ(store_->get("absent", Seconds(0.01)), std::nullopt);
}

TEST_P(StoreTest, WaitsForAnotherThread) {
  std::jthread setter([&] { store_->set("late", "here"); });
  EXPECT_EQ(store_->get("late", Seconds(30)), "here");
}

INSTANTIATE_TEST_SUITE_P(All, StoreTest, testing::Values("memory", "file"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FileStore, NamesTheFolderThatItCannotMake) {
  const std::string message = support::error_of([&] { make_file_store("/dev/null/store"); });
  EXPECT_NE(message.find("/dev/null/store"), std::string::npos);
}

}  // namespace
}  // namespace motley
