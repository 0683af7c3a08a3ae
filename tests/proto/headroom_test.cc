#include "proto/headroom.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "proto/cluster.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

TEST(Headroom, IsAShareOrASize) {
  EXPECT_EQ(parse_headroom("10%").of(Bytes(2000)), Bytes(200));
  EXPECT_EQ(parse_headroom("0.5 %").of(Bytes(1001)), Bytes(6));  // 5.005
  EXPECT_EQ(parse_headroom("1KiB").of(Bytes(2000)), Bytes(1024));
  EXPECT_EQ(parse_headroom("3kB").of(Bytes(2000)), Bytes(2000));
  for (const char* none : {"0", "0%", "0B"}) EXPECT_EQ(parse_headroom(none), Headroom()) << none;
}

TEST(Headroom, WhatIsNoneIsToldWithWhatIs) {
  for (const char* text : {"-1%", "100%", "250%", "nan%", "inf%", "%", "ten%", "1GiB%", "5 5%"}) {
    EXPECT_EQ(support::error_of([&] { parse_headroom(text); }, ErrorKind::kInvalidInput),
              "\"" + std::string(text) +
                  "\" is no share of each device's memory to leave free: write a number from 0% " +
                  "to below 100%, or a size, as in 1GiB");
  }
  for (const char* text : {"", "-1GiB", "10", "0.1", "1GiBs", "nanB", "infGiB", "GiB", "99999999TiB"}) {
    const std::string message = support::error_of([&] { parse_headroom(text); }, ErrorKind::kInvalidInput);
    EXPECT_TRUE(message.starts_with("\"" + std::string(text) + "\" is ")) << message;
    EXPECT_TRUE(message.ends_with("; or a share of each device's memory, as in 10%")) << message;
  }
}

TEST(Headroom, IsNotForAJobToUse) {
  Device device;
  device.memory = Bytes(1000);
  EXPECT_EQ(device.usable(), Bytes(1000));
  device.headroom = parse_headroom("25%");
  EXPECT_EQ(device.usable(), Bytes(750));
  device.memory = Bytes(2000);  // a share follows the memory
  EXPECT_EQ(device.usable(), Bytes(1500));
  device.headroom = parse_headroom("1TiB");
  EXPECT_EQ(device.usable(), Bytes(0));
}

}  // namespace
}  // namespace motley
