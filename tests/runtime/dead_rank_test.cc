#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "runtime/gloo_communicator.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;

constexpr Seconds kLong{60};
constexpr int kSize = 4;

// Ranks as processes, of which one is killed in the middle of its work.
class DeadRankTest : public testing::Test {
 protected:
  // Runs `work` on all ranks, until rank 1 dies by SIGKILL (which it sends itself in `work`). Returns what the others
  // threw; a rank that threw nothing tells "".
  template <class Work>
  std::vector<std::string> run(Work work) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < kSize; ++rank) {
      const pid_t child = fork();
      if (child == 0) rank_process(rank, work);
      children.push_back(child);
    }
    std::vector<std::string> errors(kSize);
    for (int rank = 0; rank < kSize; ++rank) {
      int status = 0;
      waitpid(children[rank], &status, 0);
      if (rank == 1) {
        EXPECT_TRUE(WIFSIGNALED(status)) << "rank 1 lived";
      } else {
        errors[rank] = read_file(folder_ / ("error-" + std::to_string(rank)));
      }
    }
    return errors;
  }

 private:
  template <class Work>
  [[noreturn]] void rank_process(int rank, Work work) {
    std::string error;
    try {
      const auto communicator = make_gloo_communicator(
          {.store = make_file_store(folder_ / "store"), .rank = rank, .size = kSize, .names = {"a", "b", "c", "d"}});
      try {
        work(*communicator);
      } catch (const std::exception& failure) {
        error = failure.what();
        communicator->abort(error);
      }
    } catch (const std::exception& failure) {
      error = std::string("outside: ") + failure.what();
    }
    std::ofstream(folder_ / ("error-" + std::to_string(rank))) << error;
    std::_Exit(0);
  }

  TemporaryFolder folder_;
};

TEST_F(DeadRankTest, CollectivesOfTheOthersFailAndNameIt) {
  const auto errors = run([](Communicator& communicator) {
    std::vector<float> values(100'000, 1.0f);
    for (int round = 0;; ++round) {
      if (communicator.rank() == 1 && round == 3) raise(SIGKILL);
      communicator.all_reduce(kAllRanks, values.data(), 100'000, DType::kFloat32, kLong);
    }
  });
  for (const int rank : {0, 2, 3}) EXPECT_THAT(errors[rank], HasSubstr("lost rank 1 (b)"));
}

TEST_F(DeadRankTest, MessagesOfTheOthersFailAndNameIt) {
  const auto errors = run([](Communicator& communicator) {
    // Each waits for the rank below: 2 for the dead one, 3 for 2, 0 for 3.
    communicator.barrier(kAllRanks, kLong);
    if (communicator.rank() == 1) raise(SIGKILL);
    char byte = 0;
    communicator.receive(&byte, Bytes(1), (communicator.rank() + kSize - 1) % kSize, 0)->wait(kLong);
  });
  for (const int rank : {0, 2, 3}) EXPECT_THAT(errors[rank], HasSubstr("rank 2 (c) lost rank 1 (b) while receiving"));
}

}  // namespace
}  // namespace motley
