#pragma once

// A YAML file that people write: what a reader of one asks of its entries, and how it refuses them, with file and line
// and what to write instead. Every function throws Error(kInvalidInput).

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace motley {

class YamlForm {
 public:
  explicit YamlForm(std::string source) : source_(std::move(source)) {}

  [[noreturn]] void refuse(const YAML::Node& at, const std::string& message) const;

  // A map with no other keys than these, each once.
  void check_map(const YAML::Node& node, const std::string& what, const std::vector<std::string>& keys) const;
  std::vector<YAML::Node> list(const YAML::Node& node, const YAML::Node& parent, const std::string& what) const;
  std::string text(const YAML::Node& node, const std::string& what) const;
  std::string required(const YAML::Node& map, const std::string& key, const std::string& what) const;
  std::int64_t count(const YAML::Node& node, std::int64_t most) const;  // from 1
  double price(const YAML::Node& node) const;

  // A quantity with a unit, above 0 unless `zero` is allowed.
  template <class T>
  T quantity(const YAML::Node& node, const std::string& key, T (*parse)(std::string_view), bool zero = false) const {
    T value;
    try {
      value = parse(text(node, key));
    } catch (const Error& error) {
      refuse(node, key + ": " + error.what());
    }
    if (!zero && !(value.value > 0)) refuse(node, key + " must be above 0");
    return value;
  }

 private:
  std::string source_;
};

}  // namespace motley
