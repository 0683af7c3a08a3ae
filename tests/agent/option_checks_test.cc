#include "agent/option_checks.h"

#include <gmock/gmock.h>

namespace motley {
namespace {

using testing::HasSubstr;

// What is told of an option with this check and this value; empty: nothing.
std::string told(const CLI::Validator& check, const std::string& value) {
  CLI::App app;
  std::string text;
  app.add_option("--option", text)->check(check);
  try {
    app.parse(std::vector<std::string>{"--option=" + value});
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(OptionChecks, NumbersKeepTheirBounds) {
  EXPECT_EQ(told(at_least(1), "1"), "");
  EXPECT_EQ(told(at_least(1), "0"), "--option: 0 is no number of at least 1");
  EXPECT_EQ(told(at_least(0), "0"), "");
  EXPECT_EQ(told(at_least(0), "-1e-9"), "--option: -1e-9 is no number of at least 0");
  EXPECT_EQ(told(above_zero(), "1e-9"), "");
  EXPECT_NE(told(above_zero(), "0"), "");
  EXPECT_EQ(told(fraction(), "0.999"), "");
  EXPECT_NE(told(fraction(), "1"), "");
  EXPECT_EQ(told(batch_size(), "16777216"), "");
  EXPECT_EQ(told(batch_size(), "16777217"), "--option: 16777217 is no number from 1 to 16777216");
}

TEST(OptionChecks, NothingButAFiniteNumberIsOne) {
  for (const char* text : {"nan", "-nan", "inf", "1e400", "many", "1x"}) {
    for (const CLI::Validator& check : {at_least(0), above_zero(), fraction(), batch_size()}) {
      EXPECT_THAT(told(check, text), HasSubstr("is no number")) << text;
    }
  }
}

TEST(OptionChecks, AnAddressHasHostAndPort) {
  for (const char* text : {"127.0.0.1:7070", "node-3.lab:0", "[::1]:65535"}) EXPECT_EQ(told(host_and_port(), text), "");
  for (const char* text : {"nonsense", "host:", ":7070", "host:65536", "host:-1", "host:7070 ", "::1:7070", "a b:1"}) {
    EXPECT_THAT(told(host_and_port(), text), HasSubstr("is no HOST:PORT")) << text;
  }
}

}  // namespace
}  // namespace motley
