#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

TEST(Units, ParsesBitsAndBytes) {
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("25Gbps").value, 25e9 / 8);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("12 GB/s").value, 12e9);
  EXPECT_EQ(parse_bytes("16GiB").value, std::int64_t{16} << 30);
  EXPECT_EQ(parse_bytes("25MB").value, 25'000'000);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5ms").value, 0.0015);
  EXPECT_DOUBLE_EQ(parse_flops_per_second("15.7TFLOPS").value, 15.7e12);
}

TEST(Units, RefusesWhatIsNoQuantity) {
  for (const char* text : {"", "5", "-1GB/s", "5Gbpz", "GB/s", "nanGB/s", "1e400GB/s"}) {
    EXPECT_THROW(parse_bytes_per_second(text), Error) << text;
  }
  EXPECT_EQ(parse_bytes("0").value, 0);
  EXPECT_THROW(parse_bytes("9999999999TiB"), Error);
}

TEST(Units, MessageNamesTheKnownUnits) {
  const std::string message = support::error_of([&] { parse_bytes_per_second("10gbit"); }, ErrorKind::kInvalidInput);
  EXPECT_NE(message.find("10gbit"), std::string::npos);
  EXPECT_NE(message.find("Gbps"), std::string::npos);
}

TEST(Units, PrintsThreeDigits) {
  EXPECT_EQ(to_string(Seconds(0.00124)), "1.24 ms");
  EXPECT_EQ(to_string(Bytes(std::int64_t{16} << 30)), "16.0 GiB");
  EXPECT_EQ(to_string(BytesPerSecond(25e9 / 8)), "25.0 Gbps");
  EXPECT_EQ(to_string(FlopsPerSecond(312e12)), "312 TFLOP/s");
  EXPECT_EQ(to_string(Seconds(0)), "0.00 ns");
  EXPECT_EQ(to_string(Seconds(86400)), "86400 s");
  EXPECT_EQ(to_string(Seconds(1.5e300)), "1.50e+300 s");
}

TEST(Units, BytesOverRateIsTime) { EXPECT_DOUBLE_EQ((Bytes(1000) / BytesPerSecond(500)).value, 2); }

}  // namespace
}  // namespace motley
