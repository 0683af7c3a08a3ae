#pragma once

// Stages over unequal devices by dynamic programming: the estimate that a search for pipelines starts from. From the
// last stage to the first, over the groups left, the devices of each kind left, and the number of stages behind, which
// tells how many micro-batches a stage holds under 1F1B.
//
// A stage runs on some devices of one kind or of several; of a micro-batch each device of a kind has as many samples as
// keep all equally long, whole ones, and the slowest of them is how long the stage takes. With M micro-batches an
// iteration takes
//     (M - 1) max_s t_s + sum_s t_s + 2 sum_s a_s + max_s e_s,
// t_s: a micro-batch's forward and backward ops on stage s, with the messages at both its ends where these stand in
// line with compute; a_s: a message to the next stage; e_s: the all-reduce of the stage's gradients, as a ring, and its
// updates. A stage that does not fit its devices' memories recomputes. What can no longer be better than what is known
// is left out: the groups left take no less than on all devices left together.
//
// Exact under this estimate for chains of groups, but where there are more than kCuts places to cut, where many devices
// are taken several at a time, and for the numbers of devices that are tried: of one kind powers of two and all that
// are left; of several kinds all, a half and a quarter of each, and all that are left.

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "strategy/chain.h"
#include "strategy/evaluate.h"

namespace motley {

inline constexpr std::size_t kCuts = 48;

// Devices that cost the same and have as much memory.
struct AlikeDevices {
  std::vector<DeviceIndex> devices;  // ascending
  double memory = 0;                 // bytes beside the context
  std::size_t unit = 1;              // stages take so many at a time
  std::size_t units() const { return devices.size() / unit; }
};
std::vector<AlikeDevices> devices_by_cost(const Evaluator& evaluator);

struct PlannedStage {
  std::size_t begin = 0, end = 0;     // places in the chain
  std::vector<std::size_t> width;     // devices, by kind
  std::vector<std::int64_t> samples;  // of a micro-batch on each of them, by kind
  Recompute recompute = Recompute::kNone;
};
struct PlannedPipeline {
  std::vector<PlannedStage> stages;  // from the first to the last
  std::int64_t micro_batches = 0;
  double seconds = 0;  // estimated
};

// Not thread-safe; the evaluator and the chain must outlive it.
class StageSearch {
 public:
  StageSearch(const Evaluator& evaluator, const Chain& chain);

  const std::vector<AlikeDevices>& kinds() const { return kinds_; }
  // Numbers of micro-batches that give devices whole and even numbers of samples, ascending.
  std::vector<std::int64_t> micro_batches(std::int64_t most);
  // The best for each number of stages that fill so much of their devices' memory at most, and that take at most
  // `cutoff` by the estimate.
  std::vector<PlannedPipeline> run(std::int64_t micro_batches, double filled, double cutoff);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // What the groups before a place take and hold of so many samples; by place, in seconds and bytes.
  struct Sums {
    std::vector<std::vector<double>> passes, forward;  // by kind
    std::vector<double> kept, handed;
    std::vector<double> passing;  // of the group at a place: the most that an op makes and needs while it runs
  };
  // Devices that a stage may run on, at the number of samples at hand.
  struct Option {
    std::vector<std::size_t> units;  // by kind
    std::size_t width = 0;
    std::vector<std::int64_t> samples;  // on a device, by kind
    std::vector<const Sums*> sums;      // of these, by kind
    std::int64_t most = 0;              // samples on a device
    double reduce_rate = 0;             // seconds per byte of a ring's messages
    bool in_line = false;
  };
  // Stages behind a place.
  struct State {
    double rest = kNever;         // the slowest but for the first of them
    double first = kNever;        // the first one, without the messages before it
    double sum = kNever;          // all of them
    double end = 0;               // reducing and updating
    std::int32_t option = kNone;  // of the first, with its end
    std::int32_t cut = 0;
    Recompute recompute = Recompute::kNone;
    bool reached() const { return rest < kNever; }
  };
  double seconds(const State& state) const {
    return static_cast<double>(micro_batches_ - 1) * std::max(state.rest, state.first) + state.sum + state.end;
  }

  const Sums& sums_of(std::int64_t samples);
  const Option* option(std::size_t code);
  std::vector<std::pair<std::size_t, const Option*>> free_options(std::size_t used);
  void share_samples(Option& option);
  void choose_cuts();
  void list_options();
  double message(const Option& from, const Option& to, std::size_t cut) const;
  double message_seconds(std::size_t from, std::size_t to, double bytes) const;
  double least_left(std::size_t end, std::size_t used) const;
  void relax(std::int32_t k, std::size_t used, std::size_t end, std::size_t code, const Option& option);
  PlannedPipeline trace(std::int32_t k, std::size_t used) const;

  const Evaluator& evaluator_;
  const Chain& chain_;
  const std::vector<AlikeDevices> kinds_;
  std::vector<std::size_t> radix_;            // units of each kind and one
  std::size_t counts_ = 1;                    // ways to take some units of each kind
  std::vector<std::size_t> offered_;          // codes of devices that a stage may take at any time
  std::vector<std::size_t> cuts_;             // places; the model's begin and end among them
  std::vector<double> crossing_;              // bytes of one sample, by place
  std::vector<double> state_, parameters_;    // bytes of the groups before a place
  std::vector<std::vector<double>> update_;   // seconds, by kind
  std::vector<std::vector<double>> fastest_;  // by kind and place: seconds of the groups before, of a sample, at best
  std::vector<std::vector<std::vector<ChannelIndex>>> ways_;  // by kinds
  std::map<std::int64_t, Sums> sums_;

  // Of one run.
  std::int64_t micro_batches_ = 1, samples_ = 1;
  double filled_ = 1, cutoff_ = kNever;
  std::map<std::size_t, Option> options_;   // by code
  std::vector<std::vector<State>> states_;  // by number of stages, then ways and cuts
};

}  // namespace motley
