#pragma once

// A strategy: for every op group where it runs and how its gradients meet; for the whole, how the batch passes through.
// Plain data; what the compiler takes, what a plan file holds (docs/plan.md), what a search changes.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "proto/cluster.h"

namespace motley {

enum class GradientMethod : std::uint8_t { kAllReduce = 0, kParameterServer = 1 };  // numbers reach disk
std::string to_string(GradientMethod method);                                       // "all-reduce", "parameter-server"
std::optional<GradientMethod> parse_gradient_method(std::string_view text);         // nothing when it is neither

// What a group's forward ops keep for their backward pass. What it takes from other groups, and what others need of it,
// stays in any case; ops that draw random numbers or write state never run twice.
enum class Recompute : std::uint8_t {  // numbers reach disk
  kNone = 0,                           // all that is needed
  kSelective =
      1,      // what matrix products, convolutions and attention make; the others run again before the backward ops
  kFull = 2,  // nothing: all run again (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016)
};
std::string to_string(Recompute recompute);  // "none", "selective", "full"
std::optional<Recompute> parse_recompute(std::string_view text);

struct Share {
  DeviceIndex device = 0;
  double weight = 1.0;  // of the batch, relative to the other shares of the group; > 0
  bool operator==(const Share&) const = default;
};

struct GroupDecision {
  std::vector<Share> shares;  // distinct devices, ascending; one: the whole batch there
  GradientMethod gradient = GradientMethod::kAllReduce;
  std::int32_t stage = 0;  // of the pipeline: nothing flows from a later one to an earlier one in the forward pass
  Recompute recompute = Recompute::kNone;
  bool operator==(const GroupDecision&) const = default;
};

// Strategy::schedule: the best for these stages and micro-batches. Who judges strategies chooses it (Evaluator); the
// compiler takes no such strategy.
inline constexpr const char* kAutoSchedule = "auto";

struct Strategy {
  std::string name;                   // "ev-ar", "mp:big/0", "search"
  std::vector<GroupDecision> groups;  // one per Graph::groups
  Bytes bucket{
      std::int64_t{25} << 20};  // gradients of one method and holder set are reduced in buckets of about this size
  std::int64_t micro_batches =
      1;                          // the batch passes in so many parts, as even as can be; each is divided by the shares
  std::string schedule = "1f1b";  // in which order the stages work on them: a name of compiler/schedule/schedule.h
  bool operator==(const Strategy&) const = default;
};

// Whether it cuts the model in several stages.
bool has_stages(const Strategy& strategy);

// How many of `batch` samples each share gets: largest remainders, at least one each, summing to `batch`. The same
// weights always give the same split, so that neighbours with equal shares need no transfer. Returns an empty vector
// when batch is smaller than the number of shares.
std::vector<std::int64_t> split_batch(const std::vector<Share>& shares, std::int64_t batch);

}  // namespace motley
