#include "agent/blobs.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "runtime/mapped_file.h"

namespace motley {
namespace {

using FileClock = std::filesystem::file_time_type::clock;
constexpr std::chrono::minutes kInUse{10};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    MOTLEY_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256");
  }
  void add(const void* data, std::size_t size) { EVP_DigestUpdate(context_.get(), data, size); }
  std::string hex() {
    std::array<unsigned char, 32> digest{};
    EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
    std::string text;
    for (const unsigned char byte : digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256_of_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  Sha256 hash;
  hash.add(file.bytes().data(), file.bytes().size());
  return hash.hex();
}

Blobs::Blobs(std::filesystem::path folder) : folder_(std::move(folder)) { make_output_folder(folder_); }

std::filesystem::path Blobs::path(const std::string& hash) const {
  if (hash.size() != 64 ||
      !std::all_of(hash.begin(), hash.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); })) {
    throw Error(ErrorKind::kInvalidInput, "'" + hash + "' is not the hash of a file");
  }
  return folder_ / hash;
}

bool Blobs::has(const std::string& hash) const {
  std::error_code ignored;
  std::filesystem::last_write_time(path(hash), FileClock::now(), ignored);
  return std::filesystem::exists(path(hash));
}

void Blobs::trim(Bytes limit, const std::set<std::string>& needed) const {
  struct File {
    FileClock::time_point used;
    std::filesystem::path path;
    std::int64_t size;
  };
  std::vector<File> idle;
  std::int64_t total = 0;
  std::error_code ignored;  // another process may remove files, too
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    const auto size = static_cast<std::int64_t>(entry.file_size(ignored));
    if (ignored) continue;
    total += size;
    const auto used = entry.last_write_time(ignored);
    if (ignored || used > FileClock::now() - kInUse || needed.contains(entry.path().filename())) continue;
    idle.push_back({used, entry.path(), size});
  }
  std::sort(idle.begin(), idle.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : idle) {
    if (total <= limit.value) return;
    if (std::filesystem::remove(file.path, ignored)) total -= file.size;
  }
}

struct Blobs::Writer::State {
  HalfFile file;
  std::string hash;
  Sha256 sum;
};

Blobs::Writer::Writer(const Blobs& blobs, const std::string& hash)
    : state_(new State{HalfFile(blobs.path(hash)), hash, {}}) {}

Blobs::Writer::~Writer() = default;

void Blobs::Writer::append(std::string_view data) {
  state_->sum.add(data.data(), data.size());
  state_->file.write(data);
}

void Blobs::Writer::finish() {
  const std::string found = state_->sum.hex();
  if (found != state_->hash) {
    throw Error(ErrorKind::kInvalidInput,
                "a file arrived damaged: its hash is " + found + " instead of " + state_->hash);
  }
  state_->file.finish();
}

}  // namespace motley
