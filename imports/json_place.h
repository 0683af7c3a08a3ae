#pragma once

// A place in a JSON file, so that whatever is wrong there is told with the file and the place.

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace motley {

class JsonPlace {
 public:
  // Of the whole file. Throws Error(kNotFound) when it cannot be read, Error(kInvalidInput) when it is no JSON.
  static JsonPlace of_file(const std::filesystem::path& path);

  // All throw Error(kInvalidInput) naming file and place when there is something else there.
  JsonPlace operator[](const std::string& key) const;  // with the keys that there are
  JsonPlace operator[](std::size_t index) const;
  std::vector<JsonPlace> elements() const;  // of an array
  std::vector<std::string> keys() const;    // of an object
  double number() const;                    // finite and not negative
  double any_number() const;                // finite
  std::int64_t integer() const;             // not negative
  std::string text() const;
  std::int64_t key_number() const;  // this place's key, which is a number

  bool has(const std::string& key) const;
  std::string where() const { return source_ + ": " + (path_.empty() ? "/" : path_); }
  [[noreturn]] void fail(const std::string& what) const;  // "FILE: PLACE: what"

 private:
  JsonPlace(std::shared_ptr<const nlohmann::json> root, const nlohmann::json* value, std::string source,
            std::string path)
      : root_(std::move(root)), value_(value), source_(std::move(source)), path_(std::move(path)) {}

  std::shared_ptr<const nlohmann::json> root_;
  const nlohmann::json* value_;
  std::string source_;
  std::string path_;  // "/8/4/13"
};

}  // namespace motley
