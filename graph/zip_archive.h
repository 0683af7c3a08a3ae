#pragma once

// The entries of a zip file, without the folder that torch.export puts around them. Not thread-safe.

#include <zip.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace motley {

class ZipArchive {
 public:
  // Throws Error(kNotFound) or Error(kInvalidInput), naming the file and what is wrong with it.
  explicit ZipArchive(const std::filesystem::path& path);

  bool contains(const std::string& entry) const { return entries_.contains(entry); }
  std::int64_t size(const std::string& entry) const;
  // Names below `folder` ("models/"), in order.
  std::vector<std::string> list(const std::string& folder) const;
  // Throws Error(kInvalidInput) naming file and entry when it is not there or cannot be read whole.
  std::string read(const std::string& entry) const;

 private:
  struct Entry {
    zip_uint64_t index;
    std::int64_t size;
  };
  struct Closer {
    void operator()(zip_t* zip) const { zip_discard(zip); }
  };
  const Entry& find(const std::string& entry) const;

  std::filesystem::path path_;
  std::unique_ptr<zip_t, Closer> zip_;
  std::map<std::string, Entry> entries_;
};

}  // namespace motley
