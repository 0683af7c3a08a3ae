#include "graph/zip_archive.h"

#include <array>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace motley {
namespace {

constexpr const char* kHowToMake = "motley reads .pt2 files made by torch.export.save (motley.export_model makes one)";

std::string why_no_zip(const std::filesystem::path& path) {
  std::array<char, 4> head{};
  std::ifstream stream(path, std::ios::binary);
  stream.read(head.data(), head.size());
  if (stream.gcount() == 0) return "the file is empty";
  const bool begins_as_zip = std::string_view(head.data(), head.size()) == std::string_view("PK\3\4", 4);
  return begins_as_zip ? "a zip that is truncated or damaged: copy or export it again" : "not a zip";
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    const bool there = std::filesystem::exists(path, ignored);
    throw Error(ErrorKind::kNotFound,
                path.string() + (there ? ": this is no plain file; a .pt2 file is wanted" : ": there is no such file"));
  }
  int code = 0;
  zip_.reset(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  if (!zip_) {
    throw Error(ErrorKind::kInvalidInput, path.string() + ": " + why_no_zip(path) + "; " + kHowToMake);
  }
  const zip_int64_t count = zip_get_num_entries(zip_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip_.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0) continue;
    const std::string name = stat.name;
    const std::size_t slash = name.find('/');
    const std::string inner = slash == std::string::npos ? name : name.substr(slash + 1);
    entries_.emplace(inner, Entry{stat.index, static_cast<std::int64_t>(stat.size)});
  }
}

const ZipArchive::Entry& ZipArchive::find(const std::string& entry) const {
  const auto found = entries_.find(entry);
  if (found != entries_.end()) return found->second;
  throw Error(ErrorKind::kInvalidInput, path_.string() + ": the archive lacks " + entry + "; " + kHowToMake);
}

std::int64_t ZipArchive::size(const std::string& entry) const { return find(entry).size; }

std::vector<std::string> ZipArchive::list(const std::string& folder) const {
  std::vector<std::string> names;
  for (auto at = entries_.lower_bound(folder); at != entries_.end() && at->first.starts_with(folder); ++at) {
    names.push_back(at->first);
  }
  return names;
}

std::string ZipArchive::read(const std::string& entry) const {
  const Entry& place = find(entry);
  std::string content(static_cast<std::size_t>(place.size), '\0');
  zip_file_t* file = zip_fopen_index(zip_.get(), place.index, 0);
  zip_int64_t got = file == nullptr ? -1 : 0;
  while (got >= 0 && got < place.size) {
    const zip_int64_t part = zip_fread(file, content.data() + got, static_cast<zip_uint64_t>(place.size - got));
    got = part <= 0 ? -1 : got + part;
  }
  // Closing checks the entry's checksum.
  const bool broken = file != nullptr && zip_fclose(file) != 0;
  if (got == place.size && !broken) return content;
  throw Error(ErrorKind::kInvalidInput,
              path_.string() + ": " + entry + " cannot be read: the file is damaged; copy or export it again");
}

}  // namespace motley
