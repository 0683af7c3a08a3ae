#include "imports/json_place.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/file.h"

namespace motley {

JsonPlace JsonPlace::of_file(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    auto root = std::make_shared<const nlohmann::json>(nlohmann::json::parse(text));
    const nlohmann::json* value = root.get();
    return {std::move(root), value, path.string(), ""};
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(ErrorKind::kInvalidInput, path.string() + ": is no JSON: " + error.what());
  }
}

void JsonPlace::fail(const std::string& what) const { throw Error(ErrorKind::kInvalidInput, where() + ": " + what); }

JsonPlace JsonPlace::operator[](const std::string& key) const {
  if (!value_->is_object()) fail("should be an object");
  const auto found = value_->find(key);
  if (found == value_->end()) {
    std::string known;
    for (const std::string& each : keys()) known += (known.empty() ? "" : ", ") + each;
    fail("has no \"" + key + "\"; there is " + (known.empty() ? "nothing" : known));
  }
  return {root_, &*found, source_, path_ + "/" + key};
}

JsonPlace JsonPlace::operator[](std::size_t index) const {
  if (!value_->is_array() || index >= value_->size()) {
    fail("should be a list of at least " + std::to_string(index + 1));
  }
  return {root_, &(*value_)[index], source_, path_ + "/" + std::to_string(index)};
}

std::vector<JsonPlace> JsonPlace::elements() const {
  if (!value_->is_array()) fail("should be a list");
  std::vector<JsonPlace> elements;
  for (std::size_t i = 0; i < value_->size(); ++i) elements.push_back((*this)[i]);
  return elements;
}

std::vector<std::string> JsonPlace::keys() const {
  if (!value_->is_object()) fail("should be an object");
  std::vector<std::string> keys;
  for (const auto& item : value_->items()) keys.push_back(item.key());
  return keys;
}

double JsonPlace::number() const {
  const double number = value_->is_number() ? value_->get<double>() : -1;
  if (!std::isfinite(number) || number < 0) fail("should be a number, 0 or more");
  return number;
}

double JsonPlace::any_number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) fail("should be a number");
  return value_->get<double>();
}

std::int64_t JsonPlace::integer() const {
  const double whole = number();
  if (whole != std::floor(whole) || whole > 1e18) fail("should be a whole number");
  return static_cast<std::int64_t>(whole);
}

std::string JsonPlace::text() const {
  if (!value_->is_string()) fail("should be text");
  return value_->get<std::string>();
}

std::int64_t JsonPlace::key_number() const {
  const std::string key = path_.substr(path_.rfind('/') + 1);
  std::int64_t number = 0;
  const auto end = std::from_chars(key.data(), key.data() + key.size(), number);
  if (end.ec != std::errc() || end.ptr != key.data() + key.size() || number < 0) {
    fail("its key \"" + key + "\" should be a number");
  }
  return number;
}

bool JsonPlace::has(const std::string& key) const { return value_->is_object() && value_->contains(key); }

}  // namespace motley
