#pragma once

// Files by their content: models and checkpoints as they travel between command, coordinator and agents. A folder with
// one file per hash; each appears whole, by a rename, so that several processes may share the folder. A file's
// modification time says when it was last used.

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/units.h"

namespace motley {

std::string sha256_of_file(const std::filesystem::path& path);  // lowercase hex; throws Error(kNotFound)

// How much a daemon keeps unless it is told otherwise.
inline constexpr Bytes kBlobLimit{std::int64_t{32} << 30};

class Blobs {
 public:
  explicit Blobs(std::filesystem::path folder);  // made if it is not there

  // Throws Error(kInvalidInput) unless `hash` is a hex SHA-256.
  std::filesystem::path path(const std::string& hash) const;
  bool has(const std::string& hash) const;  // marks it as used now

  // Removes the least recently used files until what is left takes at most `limit`; but none in `needed`, and none
  // that was used within the last ten minutes, since somebody may be about to open it.
  void trim(Bytes limit, const std::set<std::string>& needed = {}) const;

  // A blob that arrives in pieces. Gone without trace unless finished.
  class Writer {
   public:
    Writer(const Blobs& blobs, const std::string& hash);
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
