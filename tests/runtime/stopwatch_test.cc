#include "runtime/stopwatch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace motley {
namespace {

class StopwatchTest : public testing::Test {
 protected:
  Graph graph_;
  std::unique_ptr<Executor> executor_ = Executor::open("cpu", graph_);
};

TEST_F(StopwatchTest, OneThreadIsTimedByItsOwnWork) {
  const std::unique_ptr<Stopwatch> watch = Stopwatch::make(*executor_, 1);
  watch->start();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(watch->stop(), Seconds(0.04));
}

TEST_F(StopwatchTest, SeveralThreadsAreTimedByTheWall) {
  const std::unique_ptr<Stopwatch> watch = Stopwatch::make(*executor_, 2);
  watch->start();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GE(watch->stop(), Seconds(0.05));
}

}  // namespace
}  // namespace motley
