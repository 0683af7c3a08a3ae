#include "runtime/emulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/runtime/fake_clock.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  return support::error_of([&] { parse_emulation(text); }, ErrorKind::kInvalidInput);
}

TEST(EmulationOptions, ParsesAllParts) {
  const EmulationOptions options = parse_emulation("bandwidth=200Mbps,speed=0.5,latency=1ms,memory=2GiB");
  EXPECT_DOUBLE_EQ(options.speed, 0.5);
  EXPECT_DOUBLE_EQ(options.bandwidth.value, 25e6);  // 200e6 / 8
  EXPECT_DOUBLE_EQ(options.latency.value, 1e-3);
  EXPECT_EQ(options.memory.value, std::int64_t{2} << 30);
}

TEST(EmulationOptions, EmptyTextChangesNothing) {
  const EmulationOptions options = parse_emulation("");
  EXPECT_FALSE(options.shapes_compute());
  EXPECT_FALSE(options.shapes_network());
}

TEST(EmulationOptions, SurvivesItsText) {
  const EmulationOptions options = parse_emulation("speed=0.3,bandwidth=1Gbps,latency=7us,memory=100MB");
  const EmulationOptions again = parse_emulation(to_string(options));
  EXPECT_EQ(again.speed, options.speed);
  EXPECT_EQ(again.bandwidth, options.bandwidth);
  EXPECT_EQ(again.latency, options.latency);
  EXPECT_EQ(again.memory, options.memory);
}

TEST(EmulationOptions, RefusalsNameThePart) {
  EXPECT_THAT(refusal("speed=0"), HasSubstr("speed=0"));
  EXPECT_THAT(refusal("speed=1.5"), HasSubstr("at most 1"));
  EXPECT_THAT(refusal("speed=fast"), HasSubstr("speed=fast"));
  EXPECT_THAT(refusal("speed"), HasSubstr("speed="));
  EXPECT_THAT(refusal("cores=2"), HasSubstr("\"cores=2\""));
  EXPECT_THAT(refusal("speed=0.5,speed=0.25"), HasSubstr("twice"));
  EXPECT_THAT(refusal("bandwidth=200"), HasSubstr("200"));
}

class ComputePacerTest : public testing::Test {
 protected:
  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
  ComputePacer half_{0.5, clock_};
  const Seconds start_ = clock_->now();
  double since_start(Seconds time) const { return (time - start_).value; }
};

TEST_F(ComputePacerTest, HalfSpeedTakesTwice) {
  clock_->advance(Seconds(0.010));                                                  // the work itself, here
  EXPECT_NEAR(since_start(half_.finish(Seconds(0), Seconds(0.010))), 0.020, 1e-9);  // 10 ms / 0.5
  half_.catch_up();
  EXPECT_NEAR(since_start(clock_->now()), 0.020, 1e-9);
}

TEST_F(ComputePacerTest, OversleepingIsMadeUpFor) {
  half_.finish(Seconds(0), Seconds(0.010));
  half_.catch_up();
  clock_->advance(Seconds(0.003));  // woke 3 ms late
  half_.finish(Seconds(0), Seconds(0.010));
  half_.catch_up();
  EXPECT_NEAR(since_start(clock_->now()), 0.040, 1e-9);  // 2 * 10 ms / 0.5, as if it had woken in time
}

TEST_F(ComputePacerTest, WaitsForInputsFromElsewhere) {
  half_.finish(Seconds(0), Seconds(0.010));                                                      // until 20 ms
  EXPECT_NEAR(since_start(half_.finish(start_ + Seconds(0.050), Seconds(0.005))), 0.060, 1e-9);  // 50 + 5 / 0.5
  EXPECT_NEAR(since_start(half_.finish(start_ + Seconds(0.010), Seconds(0.005))), 0.070,
              1e-9);  // input was there before
}

TEST_F(ComputePacerTest, SleepsOnlyForWhatIsWorthIt) {
  half_.finish(Seconds(0), Seconds(20e-6));
  half_.catch_up();  // 40 us: not slept for
  EXPECT_NEAR(since_start(clock_->now()), 0, 1e-9);
  half_.finish(Seconds(0), Seconds(50e-6));
  half_.catch_up();  // 40 + 100 us: slept for, both
  EXPECT_NEAR(since_start(clock_->now()), 140e-6, 1e-9);
}

TEST_F(ComputePacerTest, RunsAheadOfTheModelledDeviceByAtMostTwentyMilliseconds) {
  half_.finish(Seconds(0), Seconds(0.009));  // 18 ms ahead: goes on
  EXPECT_NEAR(since_start(clock_->now()), 0, 1e-9);
  half_.finish(Seconds(0), Seconds(0.002));  // 22 ms ahead: waits for the device
  EXPECT_NEAR(since_start(clock_->now()), 0.022, 1e-9);
}

TEST_F(ComputePacerTest, ResumesIdle) {
  clock_->advance(Seconds(5));
  half_.resume();
  EXPECT_NEAR(since_start(half_.finish(Seconds(0), Seconds(0.010))), 5.020, 1e-9);
}

TEST(RealClock, SleepsUntilTheTime) {
  const auto clock = make_real_clock();
  const Seconds until = clock->now() + Seconds(0.002);
  clock->sleep_until(until);
  EXPECT_GE(clock->now(), until);
}

}  // namespace
}  // namespace motley
