#include "agent/framing.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace motley {
namespace {

bool read_all(int file, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(file, data, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

void FrameWriter::write(const google::protobuf::MessageLite& message) {
  std::string frame(sizeof(std::uint32_t), '\0');
  message.AppendToString(&frame);
  const auto size = static_cast<std::uint32_t>(frame.size() - sizeof(std::uint32_t));
  std::memcpy(frame.data(), &size, sizeof size);
  const std::scoped_lock lock(mutex_);
  const char* next = frame.data();
  std::size_t left = frame.size();
  while (left > 0) {
    const ssize_t written = ::write(file_, next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    next += written;
    left -= static_cast<std::size_t>(written);
  }
}

bool read_frame(int file, google::protobuf::MessageLite& message) {
  std::uint32_t size = 0;
  if (!read_all(file, reinterpret_cast<char*>(&size), sizeof size)) return false;
  std::string content(size, '\0');
  return read_all(file, content.data(), size) && message.ParseFromString(content);
}

}  // namespace motley
