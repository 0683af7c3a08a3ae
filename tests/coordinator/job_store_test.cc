#include "coordinator/job_store.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

class JobStoreTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "store.sqlite"; }
  static proto::JobSpec spec(const std::string& model) {
    proto::JobSpec spec;
    spec.set_model_name(model);
    spec.set_iterations(10);
    return spec;
  }
  std::string open_error() {
    return support::error_of([&] { JobStore store(path()); });
  }

  TemporaryFolder folder_;
};

TEST_F(JobStoreTest, RemembersJobs) {
  {
    JobStore store(path());
    EXPECT_EQ(store.add(spec("gpt2"), 5.5), 1);
    EXPECT_EQ(store.add(spec("bert"), 6.5), 2);
    store.set_iteration(1, 10);
    store.set_state(1, proto::STATE_DONE, "");
    store.set_state(2, proto::STATE_FAILED, "why");
  }
  const auto jobs = JobStore(path()).jobs();
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].model(), "gpt2");
  EXPECT_EQ(jobs[0].state(), proto::STATE_DONE);
  EXPECT_EQ(jobs[0].iteration(), 10);
  EXPECT_EQ(jobs[0].submitted(), 5.5);
  EXPECT_EQ(jobs[1].message(), "why");
}

TEST_F(JobStoreTest, WhatWasUnderWayHasFailed) {
  proto::JobSpec saving = spec("gpt2");
  saving.set_output("/out");
  JobStore(path()).add(saving, 1);
  const JobStore store(path());
  EXPECT_THAT(store.outputs(), testing::ElementsAre("/out"));
  const auto jobs = store.jobs();
  EXPECT_EQ(jobs.at(0).state(), proto::STATE_FAILED);
  EXPECT_THAT(jobs.at(0).message(), testing::HasSubstr("stopped while the job was under way"));
}

TEST_F(JobStoreTest, RemembersNodes) {
  JobStore store(path());
  proto::NodeDescription node;
  node.set_name("big");
  store.remember(node, 1);
  node.set_address("a:1");
  store.remember(node, 2);
  ASSERT_EQ(store.nodes().size(), 1U);
  EXPECT_EQ(store.nodes()[0].address(), "a:1");
}

TEST_F(JobStoreTest, RefusesWhatIsNotItsOwn) {
  write_file_atomically(path(), std::string(100, 'x'));
  EXPECT_THAT(open_error(), testing::HasSubstr("this is no coordinator's store"));
  std::filesystem::remove(path());
  JobStore{path()};
  sqlite3* database = nullptr;
  sqlite3_open(path().c_str(), &database);
  sqlite3_exec(database, "PRAGMA user_version = 2", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  EXPECT_THAT(open_error(), testing::HasSubstr("has version 2, this motley reads version 1"));
}

}  // namespace
}  // namespace motley
