#include "runtime/emulated_port.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

class EmulatedPortTest : public testing::Test {
 protected:
  EmulatedPort port_;
  // Books and gives the end.
  double book(double earliest, double duration) { return port_.book(Seconds(earliest), Seconds(duration)).end.value; }
};

TEST_F(EmulatedPortTest, QueuesWhatComesAtOnce) {
  EXPECT_EQ(book(10, 4), 14);
  EXPECT_EQ(book(10, 2), 16);
  EXPECT_EQ(book(20, 1), 21);  // idle from 16 to 20
}

TEST_F(EmulatedPortTest, FillsTheTimeBefore) {
  EXPECT_EQ(book(10, 10), 20);
  EXPECT_EQ(book(9.5, 0.5), 10);  // [9.5, 10)
  EXPECT_EQ(book(9.5, 1), 21);    // nothing left before 20
}

TEST_F(EmulatedPortTest, SplitsAroundWhatIsTaken) {
  EXPECT_EQ(book(10, 1), 11);
  const auto booking = port_.book(Seconds(9.5), Seconds(2));  // [9.5, 10), [11, 12.5)
  EXPECT_EQ(booking.start, Seconds(9.5));
  EXPECT_EQ(booking.end, Seconds(12.5));
  EXPECT_EQ(book(9.5, 1), 13.5);
}

TEST_F(EmulatedPortTest, NothingTakesNoTime) {
  book(10, 5);
  EXPECT_EQ(book(12, 0), 12);
}

TEST_F(EmulatedPortTest, ReleaseGivesTheTimeBack) {
  const auto booking = port_.book(Seconds(10), Seconds(5));
  port_.release(booking);
  EXPECT_EQ(book(10, 3), 13);
}

}  // namespace
}  // namespace motley
