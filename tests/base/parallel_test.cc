#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace motley {
namespace {

TEST(Parallel, CallsEachOnceOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 8}) {
    std::vector<std::atomic<int>> calls(1000);
    parallel_for(calls.size(), threads, [&](std::size_t i) { ++calls[i]; });
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
  }
  parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

TEST(Parallel, ThrowsTheFirstExceptionAndBeginsNoMore) {
  std::atomic<int> calls{0};
  const auto work = [&](std::size_t i) {
    ++calls;
    if (i == 3) throw std::runtime_error("three");
  };
  EXPECT_THROW(parallel_for(1000, 1, work), std::runtime_error);
  EXPECT_EQ(calls, 4);
  EXPECT_THROW(parallel_for(1000, 8, work), std::runtime_error);
}

TEST(Parallel, AStopLeavesOutTheRest) {
  std::stop_source source;
  int calls = 0;
  parallel_for(
      1000, 1,
      [&](std::size_t i) {
        ++calls;
        if (i == 9) source.request_stop();
      },
      source.get_token());
  EXPECT_EQ(calls, 10);
}

}  // namespace
}  // namespace motley
