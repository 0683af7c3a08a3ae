#pragma once

// Messages on a pipe: each after its size as a 32-bit little-endian number.

#include <google/protobuf/message_lite.h>

#include <mutex>

namespace motley {

// Writes whole messages; thread-safe. A reader that has gone is ignored: there is nobody left to tell. (The program
// must ignore SIGPIPE.)
class FrameWriter {
 public:
  explicit FrameWriter(int file) : file_(file) {}
  void write(const google::protobuf::MessageLite& message);

 private:
  int file_;
  std::mutex mutex_;
};

// Waits for the next message; false at the end, or when the writer died within a message.
bool read_frame(int file, google::protobuf::MessageLite& message);

}  // namespace motley
