#include "cli/text_table.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace motley {
namespace {

TEST(TextTable, AlignsTextLeftAndNumbersRight) {
  TextTable table({"name", "> time", "why"});
  table.add({"a", "12 ms", "x"});
  table.add({"longer", "1 s", ""});
  EXPECT_EQ(table.to_string(),
            "name     time  why\n"
            "a       12 ms  x\n"
            "longer    1 s\n");
}

TEST(TextTable, RefusesARowOfAnotherWidth) {
  TextTable table({"a", "b"});
  EXPECT_THROW(table.add({"only one"}), Error);
}

TEST(TextTable, Percent) { EXPECT_EQ(percent(0.1234), "12.3 %"); }

}  // namespace
}  // namespace motley
