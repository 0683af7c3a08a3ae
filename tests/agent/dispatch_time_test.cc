#include "agent/dispatch_time.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

TEST(DispatchTimeTest, IsWhatIsLeftBesideTheInstructions) {
  const Graph graph;
  const std::unique_ptr<Executor> executor = Executor::open("cpu", graph);
  const Seconds whole = dispatch_time(*executor, 1.0);
  EXPECT_GT(whole, Seconds(0));
  EXPECT_LT(whole, Seconds(1e-3));  // an instruction of it writes 4 MiB, which takes about as long
}

}  // namespace
}  // namespace motley
