#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/error.h"

namespace motley::support {

// The message of the Error that `body` throws, which is of that kind when one is given; "no error" when it throws none.
template <class Body>
std::string error_of(const Body& body, std::optional<ErrorKind> kind = std::nullopt) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind.value_or(error.kind()));
    return error.what();
  }
  return "no error";
}

}  // namespace motley::support
