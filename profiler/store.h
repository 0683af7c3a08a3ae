#pragma once

// What was ever measured, in one SQLite file (docs/profile-store.md). Several processes may read and write it at once
// (write-ahead log, busy time-out); within a process one object may be shared by threads. Each write is one
// transaction.
//
// Errors: Error(kInvalidInput) naming the file when it is no profile store, is damaged; Error(kUnsupported) when
// another version of motley wrote it; Error(kUnavailable) when it cannot be opened or stays locked.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "profiler/profile.h"

namespace motley {

namespace sqlite {
class Database;
}

class ProfileStore {
 public:
  // Creates the file when it is not there. ":memory:" lives as long as the object.
  explicit ProfileStore(const std::string& path);
  ~ProfileStore();
  ProfileStore(const ProfileStore&) = delete;
  ProfileStore& operator=(const ProfileStore&) = delete;

  // Newer figures of the same signature, device, software, batch and origin replace older ones.
  void add(const Profile& profile);
  void add(const std::vector<LinkSample>& links);

  // One per fingerprint and origin that has anything of devices of this kind; of ops only those whose signature is in
  // `signatures`. The most recently written first.
  std::vector<Profile> profiles(const std::string& kind, const std::vector<std::string>& signatures) const;
  // The kinds there are figures of.
  std::vector<std::string> kinds() const;
  // Between two names, both ways; empty names: all.
  std::vector<LinkSample> links(const std::string& from = "", const std::string& to = "") const;

  const std::string& path() const;

 private:
  std::unique_ptr<sqlite::Database> database_;
  mutable std::mutex mutex_;
};

}  // namespace motley
