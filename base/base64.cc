#include "base/base64.h"

#include <cstdint>

#include "base/error.h"

namespace motley {

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) -> std::uint32_t {
      return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
    };
    const std::uint32_t three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    text += kDigits[three >> 18];
    text += kDigits[three >> 12 & 63];
    text += i + 1 < bytes.size() ? kDigits[three >> 6 & 63] : '=';
    text += i + 2 < bytes.size() ? kDigits[three & 63] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  const auto refuse = [] { throw Error(ErrorKind::kInvalidInput, "this is no base64: it was cut or changed"); };
  if (text.size() % 4 != 0) refuse();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    std::uint32_t three = 0;
    for (std::size_t at = i; at < i + 4; ++at) {
      const bool padded = last && at >= text.size() - padding;
      const std::size_t digit = padded ? 0 : kDigits.find(text[at]);
      if (digit == std::string_view::npos) refuse();
      three = three << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t byte = 0; byte < (last ? 3 - padding : 3); ++byte) {
      bytes += static_cast<char>(three >> (16 - 8 * byte) & 255);
    }
  }
  return bytes;
}

}  // namespace motley
