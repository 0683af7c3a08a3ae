#pragma once

// What the ops of a graph cost on a device, measured by running them (motley::measure; the only part of profiler/ that
// needs LibTorch).
//
// Each distinct signature (signature.h) is measured once per batch size. The graph itself is run, op after op, so that
// tensors lie in memory as they will; but an op whose signature ran before is not run again: the earlier result stands
// in for its own. So a model's depth costs nothing. Only ops that make integers always run, so that indices fit what
// they index. A backward op is run right after its forward op, together with its siblings (runtime/executor.h says
// why). The first run of each warms up and tells memory, the next ones, with that memory at hand as in all iterations
// but the first, give the times: one at once, more in further passes as the budget allows.
//
// Of a device whose pace is watched (MeasureOptions::pace) all times are told at its usual one.
//
// The budget is for everything, larger batches getting more of it. An op whose repeats would not fit, judged by the
// smaller batches, is left out at a batch size, and so are all once no more than the budget would go by for a single
// run of each; curves then go on from there.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "profiler/profile.h"
#include "profiler/steady_pace.h"
#include "runtime/host_tensor.h"
#include "runtime/link_probe.h"

namespace motley {

struct MeasureProgress {
  std::int64_t batch = 0;
  int batches_done = 0;
  int batches = 0;
  int signatures_done = 0;  // at this batch size
  int signatures = 0;
  Seconds elapsed;
  Seconds budget;
};

struct MeasureOptions {
  Fingerprint fingerprint;            // of the device; `threads` is used
  std::vector<std::int64_t> batches;  // ascending; empty: profile_batches(max_batch)
  std::int64_t max_batch = 1;
  Seconds budget{50};
  Bytes memory;                 // that tensors may take; batches that need more are left out. 0: no bound
  double emulated_speed = 1.0;  // times are divided by it (runtime/emulation.h)
  std::set<std::pair<std::string, std::int64_t>> known;  // signature hash and batch: not measured
  // Genuine data for a Graph::inputs of so many samples; empty result or function: synthetic_value.
  std::function<std::optional<HostTensor>(TensorId, std::int64_t batch)> input;
  SteadyPace* pace = nullptr;                            // of the device
  std::function<void(const MeasureProgress&)> progress;  // now and then, from the calling thread; may throw to stop
  std::function<void(const Profile&)> found;             // after each batch size, what it gave
};

// Batch sizes from 1 to `most` in steps of a factor of 2 to 4, both ends among them: 8 -> 1, 3, 8.
std::vector<std::int64_t> profile_batches(std::int64_t most);

// Measures on "cpu" or "cuda:0". Returns all that `found` was told. Throws what Executor throws, among others for an op
// that cannot run, naming it; a batch that memory does not hold ends the measuring unless it is the first.
Profile measure(const Graph& graph, const std::string& device, const MeasureOptions& options);

// Of a device as a whole: slices and sums, and the context: what is resident of this process without cached blocks, so
// call it after measure, when the libraries of the ops are. For an accelerator the context is the catalogue's.
DeviceCosts measure_device(const std::string& device, const Fingerprint& fingerprint, double emulated_speed,
                           SteadyPace& pace);

// Of messages of this rank, from what a probe found of its links. Only on a CPU, `threads` of which compute at an
// emulated speed, do they slow compute: where no core is left for them, as in a control group's quota.
MessageCosts message_costs(const ProbedNetwork& network, int rank, bool cpu, int threads, double emulated_speed);

// Of "cpu" on this machine: the processor's name, LibTorch's version, and as kind "cpu", or "cpu@SHARE" where `speed`
// times the CPU time that a control group grants to a thread is less than one core.
Fingerprint cpu_fingerprint(int threads, double speed = 1.0);

}  // namespace motley
