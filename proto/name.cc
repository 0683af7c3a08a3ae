#include "proto/name.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/error.h"

namespace motley {

bool is_name(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(),
                                       [](unsigned char c) { return std::iscntrl(c) != 0 || c == ' ' || c == ','; });
}

void check_node_name(std::string_view name) {
  if (is_name(name) && name.find('/') == std::string_view::npos) return;
  throw Error(ErrorKind::kInvalidInput,
              "'" + std::string(name) + "' cannot be a node's name: give one word without spaces, commas and '/'");
}

}  // namespace motley
