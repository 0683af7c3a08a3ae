#pragma once

// How the ranks of a job find each other: a few small keys and values that all of them see. One store serves one launch
// of a job; keys are never reused. Thread-safe.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/units.h"

namespace motley {

class Store {
 public:
  virtual ~Store() = default;
  // Values may hold any bytes. A key that is set again takes the new value.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is set; std::nullopt when it is not after `timeout`. A timeout of zero looks once.
  virtual std::optional<std::string> get(const std::string& key, Seconds timeout) = 0;
};

// For ranks that are threads of one process: they share the object.
std::shared_ptr<Store> make_memory_store();

// For processes that share a file system: a file per key in `folder`, which is made if it is not there and is not
// removed. Throws Error(kUnavailable) naming the file when it cannot be written.
std::shared_ptr<Store> make_file_store(const std::filesystem::path& folder);

}  // namespace motley
