#include "agent/blobs.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "agent/mapped_file.h"
#include "base/error.h"

namespace motley {
namespace {

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

Blobs::Blobs(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) throw Error(ErrorKind::kUnavailable, folder_.string() + ": cannot be made (" + failure.message() + ")");
}

std::filesystem::path Blobs::path(const std::string& hash) const {
  if (hash.size() != 64 ||
      !std::all_of(hash.begin(), hash.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); })) {
    throw Error(ErrorKind::kInvalidInput, "'" + hash + "' is not the hash of a file");
  }
  return folder_ / hash;
}

bool Blobs::has(const std::string& hash) const { return std::filesystem::exists(path(hash)); }

struct Blobs::Writer::State {
  std::filesystem::path path;
  std::filesystem::path half;
  std::string hash;
  std::ofstream stream;
  Sha256 sum;
};

Blobs::Writer::Writer(const Blobs& blobs, std::string hash) : state_(std::make_unique<State>()) {
  static std::atomic<int> counter{0};  // two writers of one process may write the same blob
  state_->path = blobs.path(hash);
  state_->hash = std::move(hash);
  state_->half = state_->path.string() + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(counter++);
  state_->stream.open(state_->half, std::ios::binary);
}

Blobs::Writer::~Writer() {
  std::error_code ignored;
  std::filesystem::remove(state_->half, ignored);
}

void Blobs::Writer::append(std::string_view data) {
  state_->sum.add(data.data(), data.size());
  if (!state_->stream.write(data.data(), static_cast<std::streamsize>(data.size()))) {
    throw Error(ErrorKind::kUnavailable, state_->half.string() + ": cannot be written (" + std::strerror(errno) + ")");
  }
}

void Blobs::Writer::finish() {
  state_->stream.close();
  if (!state_->stream) throw Error(ErrorKind::kUnavailable, state_->half.string() + ": cannot be written");
  const std::string found = state_->sum.hex();
  if (found != state_->hash) {
    throw Error(ErrorKind::kInvalidInput,
                "a file arrived damaged: its hash is " + found + " instead of " + state_->hash);
  }
  std::filesystem::rename(state_->half, state_->path);
}

}  // namespace motley
