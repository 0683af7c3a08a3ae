#include "profiler/steady_pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace motley {
namespace {

TEST(SteadyPace, TellsNowAndTheMedianOfAllLooks) {
  double looks = 0;
  SteadyPace pace([&] {
    ++looks;
    return Pace{Seconds(looks), Seconds(10 * looks * looks)};
  });
  for (const double looked : {2.0, 3.0, 4.0}) {
    const Slowdown now = pace.now();
    EXPECT_EQ(now.product, looked);        // 2 s where it was 1 s at first
    EXPECT_EQ(now.pass, looked * looked);  // 40 s where it was 10 s
    EXPECT_EQ(pace.now(), now);            // it is fresh
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
  }
  EXPECT_EQ(pace.usual().product, 3);
  EXPECT_EQ(pace.usual().pass, 9);
}

TEST(SteadyPace, OfOneThreadIsMeasured) {
  SteadyPace pace("cpu", 1);
  EXPECT_EQ(pace.usual(), Slowdown{});  // nothing yet
  EXPECT_GT(pace.now().product, 0);
  EXPECT_GT(pace.now().pass, 0);
}

TEST(SteadyPace, OfSeveralThreadsIsNotMeasured) {
  SteadyPace pace("cpu", 2);
  EXPECT_EQ(pace.now(), Slowdown{});
  EXPECT_EQ(pace.usual(), Slowdown{});
}

}  // namespace
}  // namespace motley
