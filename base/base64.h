#pragma once

// Bytes inside of JSON: base64 with padding (RFC 4648, section 4).

#include <string>
#include <string_view>

namespace motley {

std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);  // throws Error(kInvalidInput) when that is no base64

}  // namespace motley
