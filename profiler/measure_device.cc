#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/statistics.h"
#include "profiler/catalogue.h"
#include "profiler/measure.h"
#include "runtime/control_group.h"
#include "runtime/executor.h"
#include "runtime/gloo_communicator.h"
#include "runtime/stopwatch.h"
#include "runtime/version.h"

namespace motley {
namespace {

constexpr int kRepeats = 15;

// A pass over `floats` numbers into new memory.
double pass_seconds(Executor& executor, Stopwatch& stopwatch, std::int64_t floats) {
  const HostTensor host = make_host_tensor(DType::kFloat32, {floats});
  const TensorHandle tensor = executor.from_host(host.view());
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    stopwatch.start();
    executor.scale(tensor, 0.5);
    seconds.push_back(stopwatch.stop().value);
  }
  return median(seconds);
}

// Half of a round trip of one byte between two ranks of this process, shared by the two ends.
Seconds message_seconds() {
  constexpr int kTrips = 200;
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<double> seconds;
  std::vector<std::thread> ranks;
  ranks.reserve(2);
  std::vector<std::exception_ptr> failures(2);
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        Rendezvous rendezvous;
        rendezvous.store = store;
        rendezvous.rank = rank;
        rendezvous.size = 2;
        const std::unique_ptr<Communicator> communicator = make_gloo_communicator(rendezvous);
        char byte = 0;
        for (int trip = 0; trip < kTrips; ++trip) {
          const auto begin = std::chrono::steady_clock::now();
          for (const bool sends : {rank == 0, rank != 0}) {
            const auto pending = sends ? communicator->send(&byte, Bytes(1), 1 - rank, trip)
                                       : communicator->receive(&byte, Bytes(1), 1 - rank, trip);
            pending->wait(rendezvous.timeout);
          }
          if (rank == 0) {
            seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
          }
        }
        communicator->barrier(kAllRanks, rendezvous.timeout);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  return Seconds(median(seconds) / 4);
}

Bytes resident() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t pages = 0;
  statm >> total >> pages;
  return Bytes(pages * sysconf(_SC_PAGESIZE));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

DeviceCosts measure_device(const std::string& device, const Fingerprint& fingerprint, double emulated_speed) {
  const Graph none;
  const std::unique_ptr<Executor> executor = Executor::open(device, none, {fingerprint.threads, 0});
  const std::unique_ptr<Stopwatch> stopwatch = Stopwatch::make(*executor, fingerprint.threads);
  const DeviceKind kind = find_kind(fingerprint.kind).value_or(*find_kind(device == "cpu" ? "cpu" : "T4"));
  DeviceCosts costs;
  costs.context = device == "cpu" ? resident() : kind.context;
  constexpr std::int64_t kSmall = 256;
  constexpr std::int64_t kLarge = std::int64_t{4} << 20;
  const double small = pass_seconds(*executor, *stopwatch, kSmall);
  const double large = pass_seconds(*executor, *stopwatch, kLarge);
  constexpr double kFloat = 4;
  costs.pass = Seconds(small / emulated_speed);
  costs.pass_rate = BytesPerSecond(kFloat * (kLarge - kSmall) / std::max(large - small, 1e-9) * emulated_speed);
  costs.message = device == "cpu" ? message_seconds() / emulated_speed : kind.message;
  return costs;
}

Fingerprint cpu_fingerprint(int threads, double speed) {
  Fingerprint fingerprint;
  fingerprint.kind = join_kind({"cpu", granted_share(threads) * speed});
  fingerprint.model = processor_name();
  fingerprint.threads = threads;
  fingerprint.torch = torch_version();
  return fingerprint;
}

}  // namespace motley
