#include "profiler/store.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "profiler/profile_message.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ProfileStoreTest : public testing::Test {
 protected:
  std::string file() const { return folder_ / "profiles.db"; }
  static Profile profile(double seconds, std::int64_t batch = 4, const std::string& torch = "2.14.1") {
    Profile made;
    made.fingerprint = {"T4", "Tesla T4", 1, torch, "driver 580"};
    made.ops = {{"abc", "forward abc", "f32", {{batch, Seconds(seconds), Seconds(0.1), Bytes(10), Bytes(20), 7}}}};
    return made;
  }
  std::string refusal(ErrorKind kind = ErrorKind::kInvalidInput) const {
    return support::error_of([&] { ProfileStore store(file()); }, kind);
  }

  TemporaryFolder folder_;
};

TEST_F(ProfileStoreTest, KeepsWhatIsAdded) {
  Profile whole = profile(0.5);
  whole.device = {Seconds(1e-6), BytesPerSecond(5e9), Bytes(1000), Seconds(3e-6)};
  whole.messages = {Seconds(2e-5), Seconds(1e-5), Seconds(2e-9), Seconds(3e-3)};
  ProfileStore(file()).add(whole);
  const std::vector<Profile> found = ProfileStore(file()).profiles("T4", {"abc"});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(to_message(found[0]).DebugString(), to_message(whole).DebugString());
}

TEST_F(ProfileStoreTest, FindsByKindAndSignature) {
  ProfileStore store(":memory:");
  store.add(profile(0.5));
  EXPECT_THAT(store.profiles("V100-16GB", {"abc"}), IsEmpty());
  EXPECT_THAT(store.profiles("T4", {"other"})[0].ops, IsEmpty());
  EXPECT_THAT(store.kinds(), ElementsAre("T4"));
}

TEST_F(ProfileStoreTest, PiecesAddUpAndNewerFiguresReplace) {
  ProfileStore store(":memory:");
  store.add(profile(0.5));
  store.add(profile(0.9, 8));
  store.add(profile(0.4));
  const std::vector<Profile> found = store.profiles("T4", {"abc"});
  ASSERT_THAT(found, SizeIs(1));
  ASSERT_THAT(found[0].ops[0].points, SizeIs(2));
  EXPECT_DOUBLE_EQ(found[0].ops[0].points[0].time.value, 0.4);
  EXPECT_DOUBLE_EQ(found[0].ops[0].points[1].time.value, 0.9);
}

// A process that ran fewer ops has touched less of the libraries.
TEST_F(ProfileStoreTest, TheLargestContextIsKept) {
  ProfileStore store(":memory:");
  Profile made = profile(0.5);
  for (const std::int64_t context : {1000, 3000, 2000}) {
    made.device = {Seconds(1e-6), BytesPerSecond(5e9), Bytes(context), {}};
    store.add(made);
  }
  EXPECT_EQ(store.profiles("T4", {"abc"})[0].device->context.value, 3000);
}

TEST_F(ProfileStoreTest, SoftwareAndOriginAreApart) {
  ProfileStore store(":memory:");
  store.add(profile(0.5));
  store.add(profile(0.6, 4, "2.15"));
  Profile seen = profile(0.7);
  seen.origin = Origin::kTimeline;
  store.add(seen);
  EXPECT_THAT(store.profiles("T4", {"abc"}), SizeIs(3));
}

TEST_F(ProfileStoreTest, KeepsLinks) {
  ProfileStore store(":memory:");
  const LinkSample there{"a", "b", false, Bytes(1024), Seconds(0.5), Seconds(0.1), 9};
  LinkSample back = there;
  std::swap(back.from, back.to);
  store.add({there, back, {"a", "c", true, Bytes(2048), Seconds(1), Seconds(0), 3}});
  EXPECT_EQ(to_message(store.links("b", "a")).DebugString(), to_message(std::vector{there, back}).DebugString());
  EXPECT_THAT(store.links(), SizeIs(3));
}

TEST_F(ProfileStoreTest, ManyMakeANewFileAtOnce) {
  for (int round = 0; round < 30; ++round) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { EXPECT_NO_THROW(ProfileStore(file() + std::to_string(round))); });
    }
  }
}

TEST_F(ProfileStoreTest, ManyReadAndWriteAtOnce) {
  constexpr int kWriters = 4;
  constexpr int kBatches = 25;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([this, writer] {
      ProfileStore store(file());  // as another process would
      for (int i = 0; i < kBatches; ++i) {
        store.add(profile(0.5, writer * kBatches + i));
        store.profiles("T4", {"abc"});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Profile> found = ProfileStore(file()).profiles("T4", {"abc"});
  EXPECT_THAT(found[0].ops[0].points, SizeIs(kWriters * kBatches));
}

TEST_F(ProfileStoreTest, ForeignFilesAreLeftAlone) {
  write_file_atomically(file(), std::string(5000, 'x'));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(file()), HasSubstr("no profile store")));
  EXPECT_EQ(read_file(file()), std::string(5000, 'x'));
}

TEST_F(ProfileStoreTest, OtherDatabasesAndVersionsAreRefused) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "CREATE TABLE theirs (x)", nullptr, nullptr, nullptr);
  EXPECT_THAT(refusal(), HasSubstr("no profile store of motley"));
  sqlite3_exec(db, "PRAGMA application_id = 0x6d6f746c; PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  EXPECT_THAT(refusal(ErrorKind::kUnsupported), HasSubstr("version 99"));
  sqlite3_close(db);
}

TEST_F(ProfileStoreTest, DamageIsTold) {
  { ProfileStore(file()).add(profile(0.5)); }
  std::string bytes = read_file(file());
  bytes.replace(0, 100, std::string(100, '?'));
  write_file_atomically(file(), bytes);
  EXPECT_THAT(refusal(), HasSubstr("damaged"));
}

TEST_F(ProfileStoreTest, UnreachableFileIsNamed) {
  EXPECT_THROW(ProfileStore(folder_.path() / "no" / "such" / "folder.db"), Error);
}

}  // namespace
}  // namespace motley
