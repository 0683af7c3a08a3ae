#include "agent/option_checks.h"

#include <cmath>
#include <functional>
#include <regex>

#include "base/error.h"
#include "proto/headroom.h"

namespace motley {
namespace {

CLI::Validator number(const std::string& words, const std::function<bool(double)>& holds) {
  const auto check = [=](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && holds(value)) return "";
    return text + " is no number " + words;
  };
  return {check, words, "number " + words};
}

}  // namespace

CLI::Validator at_least(std::int64_t least) {
  return number("of at least " + std::to_string(least), [=](double x) { return x >= static_cast<double>(least); });
}

CLI::Validator above_zero() {
  return number("above 0", [](double x) { return x > 0; });
}

CLI::Validator fraction() {
  return number("from 0 to below 1", [](double x) { return x >= 0 && x < 1; });
}

CLI::Validator batch_size() {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  return number("from 1 to " + std::to_string(kMost), [](double x) { return x >= 1 && x <= kMost; });
}

CLI::Validator headroom() {
  const auto check = [](const std::string& text) -> std::string {
    try {
      parse_headroom(text);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  return {check, "SIZE or PERCENT", "headroom"};
}

CLI::Validator host_and_port() {
  const auto check = [](const std::string& text) -> std::string {
    static const std::regex kForm(R"(([^\s:\[\]]+|\[[0-9a-fA-F:.%\w]+\]):([0-9]{1,5}))");
    std::smatch parts;
    if (std::regex_match(text, parts, kForm) && std::stoi(parts[2]) <= 65535) return "";
    return "\"" + text + "\" is no HOST:PORT, like 10.0.0.1:7070 with a port of at most 65535";
  };
  return {check, "HOST:PORT", "host and port"};
}

}  // namespace motley
