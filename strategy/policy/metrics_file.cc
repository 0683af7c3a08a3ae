#include "strategy/policy/metrics_file.h"

#include <array>
#include <cstdio>
#include <fstream>

#include "base/error.h"

namespace motley {

void append_metrics(const std::filesystem::path& path, const PolicyMetrics& metrics) {
  const bool is_new = !std::filesystem::exists(path);
  std::ofstream file(path, std::ios::app);
  if (is_new) file << "step,seconds,cases,imitation,agreement,entropy,sampled,improved,held_out\n";
  std::array<char, 256> row{};
  std::snprintf(row.data(), row.size(), "%lld,%.0f,%lld,%.4f,%.4f,%.4f,%.4f,%.4f,",
                static_cast<long long>(metrics.step), metrics.elapsed.value, static_cast<long long>(metrics.cases),
                metrics.imitation, metrics.agreement, metrics.entropy, metrics.sampled, metrics.improved);
  file << row.data();
  if (metrics.held_out > 0) file << metrics.held_out;
  file << "\n";
  if (!file.flush()) throw Error(ErrorKind::kUnavailable, path.string() + ": cannot be written");
}

}  // namespace motley
