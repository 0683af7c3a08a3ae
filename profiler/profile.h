#pragma once

// What was measured: ops on one device, and messages on links. Plain values; profile_message.h makes them messages,
// store.h keeps them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace motley {

// Where a figure came from. Numbers reach disk: append, never renumber.
enum class Origin : std::uint8_t {
  kProfile = 0,   // measured op by op
  kTimeline = 1,  // seen in a real run
  kImport = 2,    // somebody else's data
};

// What must be equal for a figure to hold on another device or day.
struct Fingerprint {
  std::string kind;    // as in Device::kind: "V100-16GB", "cpu", "cpu@0.5"
  std::string model;   // as the driver or the kernel calls it: "Intel(R) Xeon(R) ..."
  int threads = 1;     // of a CPU device
  std::string torch;   // version of LibTorch
  std::string driver;  // of an accelerator, with its runtime; empty for a CPU
  bool operator==(const Fingerprint&) const = default;

  std::string device() const;    // kind, model and threads as one line: the store's key
  std::string software() const;  // torch and driver, likewise
};

struct CurvePoint {
  std::int64_t batch = 0;  // 0 alone: of an op that does not depend on the batch
  Seconds time;            // median of the repeats, launch included
  Seconds spread;          // median absolute deviation
  Bytes kept;
  Bytes workspace;
  std::int32_t repeats = 0;
};

struct ProfiledOp {
  std::string signature;           // hash (signature.h)
  std::string text;                // what it stands for
  std::string dtype;               // "f32"
  std::vector<CurvePoint> points;  // ascending, distinct batches
};

// Of a device as a whole.
struct DeviceCosts {
  Seconds pass;              // a slice, concatenation, sum, scale or fill of nothing
  BytesPerSecond pass_rate;  // ... and of many bytes written
  Bytes context;             // of the process beside its tensors
  Seconds dispatch;          // of the host thread, for an instruction beside what that itself takes; 0: hidden
};

// What a message costs the device at either end, beyond the link's latency and bandwidth.
struct MessageCosts {
  Seconds overhead;  // fixed time
  // How much later than alone its compute instructions end, when it sends or receives the message meanwhile.
  Seconds work;
  Seconds work_per_byte;
  // How much later it is seen when it arrives while the device computes: in the mean, until a thread that waits for it
  // gets its turn on a core, be that the end of another's turn or of the pause that a CPU quota makes.
  Seconds pause;
  // The device's software sends and receives between its compute instructions, not beside them: one message at a time,
  // and compute waits as long as it is under way. Said of others' software; motley's own does not.
  bool in_line = false;

  bool delay_compute() const { return in_line || work > Seconds(0) || work_per_byte > Seconds(0); }
};

struct Profile {
  Fingerprint fingerprint;
  Origin origin = Origin::kProfile;
  std::optional<DeviceCosts> device;
  std::optional<MessageCosts> messages;
  std::vector<ProfiledOp> ops;
};

// One size of message from one device's node to another's, timed one way.
struct LinkSample {
  std::string from;  // names of devices or nodes
  std::string to;
  bool both_ways = false;  // while the same went the other way
  Bytes bytes;
  Seconds time;  // median
  Seconds spread;
  std::int32_t repeats = 0;
};

}  // namespace motley
