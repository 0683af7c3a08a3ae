#include "agent/message_pause.h"

#include <gtest/gtest.h>

#include <thread>

namespace motley {
namespace {

TEST(MessagePauseTest, AThreadWaitsForItsTurnWhereNoCoreIsLeft) {
  const Seconds crowded = message_pause(8 * static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(crowded, Seconds(0));
  EXPECT_LT(crowded, Seconds(1));
}

}  // namespace
}  // namespace motley
