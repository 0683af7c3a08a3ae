#include "proto/yaml_form.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/suggest.h"

namespace motley {

void YamlForm::refuse(const YAML::Node& at, const std::string& message) const {
  const int line = at.IsDefined() ? at.Mark().line : -1;
  throw Error(ErrorKind::kInvalidInput, source_ + (line >= 0 ? ":" + std::to_string(line + 1) : "") + ": " + message);
}

void YamlForm::check_map(const YAML::Node& node, const std::string& what, const std::vector<std::string>& keys) const {
  std::string known;
  for (const std::string& key : keys) known += " " + key;
  if (!node.IsMap()) refuse(node, what + " is written as KEY: VALUE with the keys" + known);
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = text(entry.first, "a key");
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      refuse(entry.first, std::string(what).append(" has no key ").append(key).append(did_you_mean(key, keys)) +
                              "; its keys are" + known);
    }
    if (!seen.insert(key).second) refuse(entry.first, "the key " + key + " stands twice: remove one of the two");
  }
}

std::vector<YAML::Node> YamlForm::list(const YAML::Node& node, const YAML::Node& parent,
                                       const std::string& what) const {
  if (!node) refuse(parent, what + " is missing: write " + what + ": and a list");
  if (!node.IsSequence()) refuse(node, what + " is a list: write one - for each entry");
  return {node.begin(), node.end()};
}

std::string YamlForm::text(const YAML::Node& node, const std::string& what) const {
  if (!node.IsScalar()) refuse(node, what + " is one word");
  return node.Scalar();
}

std::string YamlForm::required(const YAML::Node& map, const std::string& key, const std::string& what) const {
  if (!map[key]) refuse(map, what + " has no " + key + ": add " + key + ": and its value");
  return text(map[key], key);
}

std::int64_t YamlForm::count(const YAML::Node& node, std::int64_t most) const {
  std::int64_t number = 0;
  if (!YAML::convert<std::int64_t>::decode(node, number) || number < 1 || number > most) {
    refuse(node, "count is a whole number from 1 to " + std::to_string(most) + ", not \"" +
                     (node.IsScalar() ? node.Scalar() : "a list") + "\"");
  }
  return number;
}

double YamlForm::price(const YAML::Node& node) const {
  double number = 0;
  if (!YAML::convert<double>::decode(node, number) || !(number >= 0) || !std::isfinite(number)) {
    refuse(node, "a price is a number per hour, 0 or more");
  }
  return number;
}

}  // namespace motley
