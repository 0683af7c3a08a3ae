#include "runtime/emulation.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"

namespace motley {
namespace {

constexpr Seconds kShortestSleep{100e-6};  // a sleep and its wake-up cost about a tenth of this
constexpr Seconds kLead{20e-3};

Seconds read_clock(clockid_t id) {
  timespec time{};
  clock_gettime(id, &time);
  return Seconds(static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9);
}

class RealClock : public EmulationClock {
 public:
  Seconds now() override { return read_clock(CLOCK_MONOTONIC); }
  void sleep_until(Seconds time) override {
    // Linux rounds a thread's sleeps up by 50 us unless it is told otherwise.
    static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    static_cast<void>(slack);
    timespec until{};
    until.tv_sec = static_cast<time_t>(time.value);
    until.tv_nsec = static_cast<long>((time.value - std::floor(time.value)) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
  }
};

double parse_speed(std::string_view text) {
  double speed = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), speed);
  if (failure != std::errc() || end != text.data() + text.size() || !(speed > 0 && speed <= 1)) {
    throw Error(ErrorKind::kInvalidInput,
                "emulation: speed=" + std::string(text) + " is not a number above 0 and at most 1");
  }
  return speed;
}

std::string shortest(double value) {
  char digits[32];
  auto [end, failure] = std::to_chars(digits, digits + sizeof(digits), value);
  return std::string(digits, end);
}

}  // namespace

EmulationOptions parse_emulation(std::string_view text) {
  EmulationOptions options;
  std::set<std::string, std::less<>> seen;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const size_t equals = part.find('=');
    const std::string key(part.substr(0, equals));
    const std::string_view value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    if (key == "speed") {
      options.speed = parse_speed(value);
    } else if (key == "bandwidth") {
      options.bandwidth = parse_bytes_per_second(value);
    } else if (key == "latency") {
      options.latency = parse_seconds(value);
    } else if (key == "memory") {
      options.memory = parse_bytes(value);
    } else {
      throw Error(ErrorKind::kInvalidInput,
                  "emulation: unknown part \"" + std::string(part) +
                      "\"; known are speed=0.5, bandwidth=200Mbps, latency=1ms and memory=2GiB, joined by commas");
    }
    if (!seen.insert(key).second) throw Error(ErrorKind::kInvalidInput, "emulation: " + key + " is given twice");
  }
  return options;
}

std::string to_string(const EmulationOptions& options) {
  std::string text = "speed=" + shortest(options.speed);
  if (options.bandwidth.value > 0) text += ",bandwidth=" + shortest(options.bandwidth.value) + "B/s";
  if (options.latency.value > 0) text += ",latency=" + shortest(options.latency.value) + "s";
  if (options.memory.value > 0) text += ",memory=" + std::to_string(options.memory.value) + "B";
  return text;
}

std::shared_ptr<EmulationClock> make_real_clock() { return std::make_shared<RealClock>(); }

ComputePacer::ComputePacer(double speed, std::shared_ptr<EmulationClock> clock)
    : speed_(speed), clock_(std::move(clock)), free_at_(clock_->now()) {}

Seconds ComputePacer::finish(Seconds ready, Seconds cpu_time) {
  free_at_ = std::max(free_at_, ready) + cpu_time / speed_;
  if (free_at_ > clock_->now() + kLead) catch_up();
  return free_at_;
}

void ComputePacer::catch_up() {
  if (free_at_ > clock_->now() + kShortestSleep) clock_->sleep_until(free_at_);
}

void ComputePacer::resume() { free_at_ = clock_->now(); }

Seconds thread_cpu_time() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace motley
