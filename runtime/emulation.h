#pragma once

// A device of another speed, on the machine at hand: the result is computed, and given back when the modelled device
// would have it. Costs no CPU time beyond the work itself. The network's side is emulated_communicator.h.

#include <memory>
#include <string>
#include <string_view>

#include "base/units.h"

namespace motley {

struct EmulationOptions {
  double speed = 1.0;        // in (0, 1]: of the speed of one core of this machine
  BytesPerSecond bandwidth;  // of the device's own port, each way; 0: as fast as the real one
  Seconds latency;           // one way, added by this port to each message that leaves
  Bytes memory;              // what the device says that it has; 0: the real amount
  bool shapes_compute() const { return speed < 1.0; }
  bool shapes_network() const { return bandwidth.value > 0 || latency.value > 0; }
};

// "speed=0.5,bandwidth=200Mbps,latency=1ms,memory=2GiB", each at most once, in any order. Throws Error(kInvalidInput)
// that names the part and what is known.
EmulationOptions parse_emulation(std::string_view text);
std::string to_string(const EmulationOptions& options);  // parse_emulation of it gives the same options

// Time as the emulation sees it; tests have one that they move by hand.
class EmulationClock {
 public:
  virtual ~EmulationClock() = default;
  virtual Seconds now() = 0;  // the same clock in all processes of one machine
  virtual void sleep_until(Seconds time) = 0;
};
std::shared_ptr<EmulationClock> make_real_clock();  // CLOCK_MONOTONIC; sleeps, never spins

// Paces one stream of compute instructions. The modelled device starts an instruction when its inputs are there and it
// is done with the one before, and needs cpu_time / speed for it. Its time is kept apart from the wall's, so that what
// a sleep lasts too long is not lost. This machine may be ahead of the modelled device by up to 20 ms as long as nobody
// else sees a result: a process that slept after every instruction would find its caches cold, which the modelled
// device would not. Not thread-safe: one per stream.
class ComputePacer {
 public:
  ComputePacer(double speed, std::shared_ptr<EmulationClock> clock);
  // Called when the result is there. `ready`: when the last input from elsewhere (a receive, a collective) had come, by
  // the clock's now(); zero when all inputs are this stream's own. `cpu_time`: what the instruction took here, on a
  // core of its own. Returns when the modelled device has it.
  Seconds finish(Seconds ready, Seconds cpu_time);
  // Sleeps until the modelled device has done what it was given; before a result leaves this stream.
  void catch_up();
  // After a pause (a checkpoint, the end of an iteration) the device is idle from now on.
  void resume();

 private:
  double speed_;
  std::shared_ptr<EmulationClock> clock_;
  Seconds free_at_;  // when the modelled device is done with what it was given
};

// CPU time that the calling thread has used (CLOCK_THREAD_CPUTIME_ID): what ComputePacer is fed with.
Seconds thread_cpu_time();

}  // namespace motley
