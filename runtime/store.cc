#include "runtime/store.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace motley {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration duration_of(Seconds time) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(time.value, 1e8)));
}

class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }

  std::optional<std::string> get(const std::string& key, Seconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, duration_of(timeout), [&] { return values_.contains(key); })) return std::nullopt;
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// A key becomes a file name: letters and digits stay, other bytes are written in hexadecimal.
std::string file_name(const std::string& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "key-";
  for (const unsigned char byte : key) {
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    if (plain) {
      name += static_cast<char>(byte);
    } else {
      name += '_';
      name += kDigits[byte >> 4];
      name += kDigits[byte & 15];
    }
  }
  return name;
}

class FileStore : public Store {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code failure;
    std::filesystem::create_directories(folder_, failure);
    if (failure) {
      throw Error(ErrorKind::kUnavailable,
                  "cannot make the store's folder " + folder_.string() + ": " + failure.message());
    }
  }

  void set(const std::string& key, const std::string& value) override {
    std::lock_guard lock(mutex_);  // the neighbour file's name tells processes apart, not threads
    write_file_atomically(folder_ / file_name(key), value);
  }

  std::optional<std::string> get(const std::string& key, Seconds timeout) override {
    const std::filesystem::path path = folder_ / file_name(key);
    const auto deadline = Clock::now() + duration_of(timeout);
    while (!std::filesystem::exists(path)) {
      if (Clock::now() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return read_file(path);
  }

 private:
  const std::filesystem::path folder_;
  std::mutex mutex_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

std::shared_ptr<Store> make_file_store(const std::filesystem::path& folder) {
  return std::make_shared<FileStore>(folder);
}

}  // namespace motley
