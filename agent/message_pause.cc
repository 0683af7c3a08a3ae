#include "agent/message_pause.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

namespace motley {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kIdle{200};
constexpr std::chrono::milliseconds kBusy{2000};
constexpr int kMostBetween = 30'000;  // microseconds

// Of a thread that sleeps until moments drawn over so long. Those that it sleeps through count as well.
Seconds mean_lateness(std::chrono::milliseconds length) {
  std::mt19937 random(1);
  std::chrono::duration<double> late{0};
  int moments = 0;
  const Clock::time_point start = Clock::now();
  for (Clock::time_point moment = start; moment - start < length; ++moments) {
    moment += std::chrono::microseconds(random() % kMostBetween);
    std::this_thread::sleep_until(moment);
    late += Clock::now() - moment;
  }
  return Seconds(late.count() / moments);
}

}  // namespace

Seconds message_pause(int threads) {
  const Seconds idle = mean_lateness(kIdle);
  std::atomic<bool> done{false};
  std::vector<std::thread> computing;
  for (int i = 0; i < threads; ++i) {
    computing.emplace_back([&done] {
      while (!done.load(std::memory_order_relaxed)) {
      }
    });
  }
  const Seconds busy = mean_lateness(kBusy);
  done = true;
  for (std::thread& thread : computing) thread.join();
  return std::max(Seconds(0), busy - idle);
}

}  // namespace motley
