#pragma once

// Files by their content: models and checkpoints as they travel between command, coordinator and agents. A folder with
// one file per hash; each appears whole, by a rename, so that several processes may share the folder.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace motley {

std::string sha256_of_file(const std::filesystem::path& path);  // lowercase hex; throws Error(kNotFound)

class Blobs {
 public:
  explicit Blobs(std::filesystem::path folder);  // made if it is not there

  // Throws Error(kInvalidInput) unless `hash` is a hex SHA-256.
  std::filesystem::path path(const std::string& hash) const;
  bool has(const std::string& hash) const;

  // A blob that arrives in pieces. Gone without trace unless finished.
  class Writer {
   public:
    Writer(const Blobs& blobs, std::string hash);
    ~Writer();
    void append(std::string_view data);  // throws Error(kUnavailable) when the disk is full
    void finish();                       // throws Error(kInvalidInput) when the content has another hash

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  std::filesystem::path folder_;
};

}  // namespace motley
