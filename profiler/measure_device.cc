#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>
#include <vector>

#include "base/control_group.h"
#include "base/error.h"
#include "base/statistics.h"
#include "profiler/catalogue.h"
#include "profiler/measure.h"
#include "runtime/executor.h"
#include "runtime/stopwatch.h"
#include "runtime/version.h"

namespace motley {
namespace {

constexpr int kRepeats = 15;

// A pass over `floats` numbers into new memory.
double pass_seconds(Executor& executor, Stopwatch& stopwatch, SteadyPace& pace, std::int64_t floats) {
  const HostTensor host = make_host_tensor(DType::kFloat32, {floats});
  const TensorHandle tensor = executor.from_host(host.view());
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const double slower = pace.now().pass;
    stopwatch.start();
    executor.scale(tensor, 0.5);
    seconds.push_back(stopwatch.stop().value / slower);
  }
  return median(seconds) * pace.usual().pass;
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

// Of a second for which messages keep a core busy: for how long that many compute threads stand still. Where a core is
// left for the messages, they do not; where a quota is shared, what messages use is lost to the compute threads.
double lost_share(int threads, double emulated_speed) {
  const double cores = std::min(granted_cores(), static_cast<double>(std::thread::hardware_concurrency()));
  const double spare = cores - threads * emulated_speed;
  return std::clamp(1 - spare, 0.0, 1.0) / std::min<double>(cores, threads);
}

}  // namespace

DeviceCosts measure_device(const std::string& device, const Fingerprint& fingerprint, double emulated_speed,
                           SteadyPace& pace) {
  const Graph none;
  const std::unique_ptr<Executor> executor = Executor::open(device, none, {fingerprint.threads, 0});
  const std::unique_ptr<Stopwatch> stopwatch = Stopwatch::make(*executor, fingerprint.threads);
  const DeviceKind kind = find_kind(fingerprint.kind).value_or(*find_kind(device == "cpu" ? "cpu" : "T4"));
  DeviceCosts costs;
  constexpr std::int64_t kSmall = 256;
  constexpr std::int64_t kLarge = std::int64_t{4} << 20;
  const double small = pass_seconds(*executor, *stopwatch, pace, kSmall);
  const double large = pass_seconds(*executor, *stopwatch, pace, kLarge);
  constexpr double kFloat = 4;
  costs.pass = Seconds(small / emulated_speed);
  costs.pass_rate = BytesPerSecond(kFloat * (kLarge - kSmall) / std::max(large - small, 1e-9) * emulated_speed);
  executor->release_cached_memory();
  costs.context = device == "cpu" ? process_memory().resident : kind.context;
  return costs;
}

MessageCosts message_costs(const ProbedNetwork& network, int rank, bool cpu, int threads, double emulated_speed) {
  Seconds latency = network.message_work * 2;
  for (const ProbedLink& link : network.links) {
    if (link.from == rank || link.to == rank) latency = std::min(latency, link.latency);
  }
  const double lost = cpu ? lost_share(threads, emulated_speed) : 0;
  return {latency / 2, network.message_work * lost, network.message_work_per_byte * lost};
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
