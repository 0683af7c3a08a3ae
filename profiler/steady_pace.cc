#include "profiler/steady_pace.h"

#include <memory>
#include <utility>

#include "base/statistics.h"

namespace motley {

SteadyPace::SteadyPace(const std::string& device, int threads) {
  if (device != "cpu" || threads > 1) return;
  *this = SteadyPace([probe = std::make_shared<PaceProbe>(device, threads)] { return probe->measure(); });
}

SteadyPace::SteadyPace(std::function<Pace()> probe) : probe_(std::move(probe)), first_(probe_()) {}

Slowdown SteadyPace::now() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kFresh{100};
  if (!probe_ || Clock::now() - measured_ < kFresh) return now_;
  const Pace pace = probe_();
  measured_ = Clock::now();
  now_ = {pace.product / first_.product, pace.pass / first_.pass};
  product_.push_back(now_.product);
  pass_.push_back(now_.pass);
  return now_;
}

Slowdown SteadyPace::usual() const { return product_.empty() ? Slowdown{} : Slowdown{median(product_), median(pass_)}; }

}  // namespace motley
