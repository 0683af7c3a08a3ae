#include "graph/batch_expr.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

TEST(BatchExpr, ParsesPolynomialsOfTheSymbol) {
  EXPECT_EQ(BatchExpr::parse("128*s77", "s77"), BatchExpr::batch(128));
  EXPECT_EQ(BatchExpr::parse("s77**2 - 3", "s77").at(5), 22);
  EXPECT_EQ(BatchExpr::parse("-2*s0*(s0 + 1) + 50", "s0").at(4), 10);  // -2 * 4 * 5 + 50
  EXPECT_EQ(BatchExpr::parse("7", "").at(100), 7);
}

TEST(BatchExpr, ParsesSympyNotation) {
  const std::string s = "Symbol('s77', positive=True, integer=True)";
  EXPECT_EQ(BatchExpr::parse("Mul(Integer(128), " + s + ")", "s77"), BatchExpr::batch(128));
  EXPECT_EQ(BatchExpr::parse("Add(Pow(" + s + ", Integer(2)), Integer(-3))", "s77").at(5), 22);
  EXPECT_THROW(BatchExpr::parse(s, "s78"), Error);
}

TEST(BatchExpr, MessageIsFreeOfSympy) {
  const std::string message = support::error_of(
      [&] { BatchExpr::parse("FloorDiv(Symbol('s77', positive=True, integer=True), Integer(2))", "s77"); },
      ErrorKind::kUnsupported);
  EXPECT_NE(message.find("\"FloorDiv(s77, 2)\""), std::string::npos) << message;
}

TEST(BatchExpr, RefusesWhatIsNotPolynomial) {
  for (const char* text : {"s77//2", "Max(1", "Gcd(s77, 2)", "Mod(s77, 2)", "s77 + s1", "s77**s77", "s77**(-1)", "",
                           "2*", "(s77", "s77 4"}) {
    EXPECT_THROW(BatchExpr::parse(text, "s77"), Error) << text;
  }
  EXPECT_THROW(BatchExpr::parse("s77", ""), Error);
}

TEST(BatchExpr, TakesTheSideThatWinsForEveryBatch) {
  const auto parse = [](const char* text, BatchRange range = {}) { return BatchExpr::parse(text, "B", range); };
  EXPECT_EQ(parse("Min(32, 32*B)"), BatchExpr(32));
  EXPECT_EQ(parse("Max(1, B)"), BatchExpr::batch());
  EXPECT_EQ(parse("Max(1, B, 4*B, 3*B + 1)"), BatchExpr::batch(4));  // 4*B >= 3*B + 1 from B = 1 on
  EXPECT_EQ(parse("Max(B**2, B)").to_string(), "B^2");
  EXPECT_EQ(parse("Min(B - 1, 0)"), BatchExpr(0));
  EXPECT_EQ(parse("Max(2, B)", {.least = 2}), BatchExpr::batch());
  EXPECT_EQ(parse("Min(8, B)", {.least = 1, .most = 8}), BatchExpr::batch());
  EXPECT_EQ(parse("Min(Integer(32), Mul(Integer(32), Symbol('B', positive=True, integer=True)))"), BatchExpr(32));
}

TEST(BatchExpr, ASideThatWinsForSomeBatchesIsRefusedWithTheRange) {
  const std::string message = support::error_of([&] { BatchExpr::parse("Max(2, B)", "B", {.least = 1, .most = 64}); });
  EXPECT_NE(message.find("whether 2 or B is greater depends on the batch size B"), std::string::npos) << message;
  EXPECT_NE(message.find("batches from 1 to 64"), std::string::npos) << message;
}

TEST(BatchExpr, DividesWhereTheQuotientIsAPolynomial) {
  const auto parse = [](const char* text) { return BatchExpr::parse(text, "B"); };
  EXPECT_EQ(parse("FloorDiv(32*B, 8)"), BatchExpr::batch(4));
  EXPECT_EQ(parse("FloorDiv(4*B + 7, 4)"), BatchExpr::batch() + 1);
  EXPECT_EQ(parse("FloorDiv(4*B - 1, 4)"), BatchExpr::batch() + -1);  // down, not towards zero
  EXPECT_EQ(parse("FloorDiv(6*B**2, 2*B)"), BatchExpr::batch(3));
  EXPECT_EQ(parse("Mod(32*B, 8)"), BatchExpr(0));
  EXPECT_EQ(parse("Mod(4*B + 7, 4)"), BatchExpr(3));
  for (const char* text : {"FloorDiv(B, 2)", "FloorDiv(8, B)", "FloorDiv(B, 0)", "FloorDiv(B, B + 1)"}) {
    EXPECT_THROW(parse(text), Error) << text;
  }
}

TEST(BatchExpr, AddsAndMultiplies) {
  const BatchExpr b = BatchExpr::batch();
  EXPECT_EQ((b + 1) * (b + -1), BatchExpr::from_coefficients({-1, 0, 1}));
  EXPECT_EQ(b + b * -1, BatchExpr(0));
  EXPECT_TRUE((b * 0).is_constant());
  EXPECT_EQ(element_count({b, 3, 4}), BatchExpr::batch(12));
}

TEST(BatchExpr, KnowsItsForm) {
  EXPECT_EQ(BatchExpr::batch(6).batch_factor(), 6);
  EXPECT_EQ((BatchExpr::batch(6) + 1).batch_factor(), 0);
  EXPECT_FALSE(BatchExpr(5).depends_on_batch());
  EXPECT_TRUE(BatchExpr::batch().depends_on_batch());
}

TEST(BatchExpr, Prints) {
  EXPECT_EQ(BatchExpr::from_coefficients({3, 0, 1}).to_string(), "B^2 + 3");
  EXPECT_EQ((BatchExpr::batch(-128) + -2).to_string(), "-128*B - 2");
  EXPECT_EQ(BatchExpr().to_string(), "0");
}

TEST(BatchExpr, OverflowIsAnError) {
  const std::int64_t big = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_THROW(BatchExpr::batch(big).at(3), Error);
  EXPECT_THROW(BatchExpr(big) * BatchExpr(3), Error);
  EXPECT_EQ(BatchExpr::batch(big).at(2), 2 * big);
}

}  // namespace
}  // namespace motley
