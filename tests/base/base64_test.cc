#include "base/base64.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace motley {
namespace {

TEST(Base64, IsAsTheStandardsTestVectors) {  // RFC 4648, section 10
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, TakesEveryByte) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
}

TEST(Base64, RefusesWhatIsCutOrChanged) {
  for (const char* text : {"Zm9", "Zm9*", "Z===", "=AAA", "Zg==Zg=="}) EXPECT_THROW(from_base64(text), Error) << text;
}

}  // namespace
}  // namespace motley
