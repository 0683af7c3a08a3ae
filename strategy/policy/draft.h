#pragma once

// A strategy while it is being decided, group after group: what a policy must know of the decisions so far to make the
// next one, and the strategy that they make in the end.
//
// First comes how the batch passes through: in how many micro-batches, and whether in stages; of stages, each run of
// neighbouring places with the same choice is one. Then, place by place, a choice (strategy/policy/choices.h), what to
// make of its shares, how gradients meet and what is kept. Places may be decided beforehand, behind as well as before.

#include <array>
#include <optional>
#include <vector>

#include "strategy/policy/choices.h"

namespace motley {

inline constexpr int kStepFeatures = 26;
inline constexpr std::int64_t kMostMicroBatches = 128;
inline constexpr int kPassages = 15;  // in one; in 2, 4, ..., 128 micro-batches; the same with stages
inline constexpr int kShareModes = 3;
inline constexpr int kGradientMethods = 2;
inline constexpr int kRecomputes = 3;

// How the batch passes through.
struct Passage {
  std::int64_t micro_batches = 1;
  bool staged = false;
  int number() const;  // 0 ... kPassages - 1
  static Passage numbered(int number);
};

enum class ShareMode : std::uint8_t {
  kChoice = 0,
  kEven = 1,
  kOwn = 2
};  // as the choice has them; even; by the
    // devices' speeds on this group
// The decision of one place.
struct Pick {
  std::int32_t choice = -1;
  ShareMode mode = ShareMode::kChoice;
  GradientMethod gradient = GradientMethod::kAllReduce;
  Recompute recompute = Recompute::kNone;
};

class Draft {
 public:
  // Both must outlive it, and no choices be added meanwhile.
  Draft(const Situation& situation, const Choices& choices, Passage passage);
  // The same decisions as a whole strategy's, but for some places, which are open. Their choices must be there, as
  // add_choices() does it. Stages stay as many as they are: an open place joins the one before or the one behind.
  Draft(const Situation& situation, const Choices& choices, const Strategy& strategy, const std::vector<char>& open);
  static void add_choices(const Situation& situation, Choices& choices, const Strategy& strategy,
                          const std::vector<char>& open);

  // What there is to be known of each choice for this place: [choices, kStepFeatures], appended to `features`; and
  // whether it is allowed: every device gets a sample of each micro-batch, and parameters, gradients and optimizer
  // states that are there already and those of this place fit, if they do anywhere.
  void look(std::int32_t place, std::vector<float>& features, std::vector<char>& allowed) const;
  void decide(std::int32_t place, const Pick& pick);
  // The pick that comes closest to a decision for this place, and how much of the batch it leaves where that has it.
  struct Nearest {
    Pick pick;
    double common = 0;
  };
  Nearest nearest(std::int32_t place, const GroupDecision& decision) const;
  bool divides(std::int32_t choice) const { return choices_[choice].shares.size() > 1; }

  // When every place is decided. Weights are samples.
  Strategy strategy() const;
  GroupDecision decision(std::int32_t place) const;  // stage 0 unless a strategy's was kept

 private:
  std::vector<Share> shares_of(std::int32_t place, const Pick& pick) const;
  bool decided(std::int32_t place) const { return picks_[place].choice >= 0; }
  std::int32_t next_decided(std::int32_t place) const;  // behind it; -1: none
  const Choice* neighbour(std::int32_t place) const;    // its choice; null when there is none, or no place
  double seconds_to(const Choice& from, const Choice& to, double bytes) const;

  const Situation& situation_;
  const Choices& choices_;
  Passage passage_;
  bool keeps_stages_ = false;               // a strategy's, whose places are decided anew
  std::vector<std::int32_t> stages_;        // by place; where they are kept
  std::vector<Pick> picks_;                 // by place
  std::vector<std::vector<Share>> shares_;  // by place: what they come to, weights that sum to 1
  std::vector<double> load_;                // by device: seconds
  std::vector<double> state_;               // bytes
  std::vector<double> active_;
  std::vector<std::int32_t> uses_;  // by choice: places
  std::int32_t count_ = 0;          // places decided
  double decided_ = 0;              // ... their part of the fastest device's time
};

}  // namespace motley
