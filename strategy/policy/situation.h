#pragma once

// What a policy sees of a model on a cluster: two graphs, of op groups and of devices, and what the ones cost on the
// others. All figures are relative, so that neither the size of the model nor the speed of the machines matters: times
// to T, the time of one iteration if all devices shared it by their speeds without a word to each other; bytes to the
// time that they take on a link, relative to T, or to the memory that they fill. Most are logarithms.
//
// Groups stand in the model's order. Devices of one node that cost the same and have the same memory are one token with
// a count, so that 64 devices are a handful of tokens; nothing depends on their order. Plain values.

#include <vector>

#include "strategy/evaluate.h"
#include "strategy/work.h"

namespace motley {

inline constexpr int kGroupFeatures = 20;
inline constexpr int kEdgeFeatures = 4;
inline constexpr int kTokenFeatures = 10;
inline constexpr int kLinkFeatures = 6;
inline constexpr int kCrossFeatures = 6;

struct Situation {
  explicit Situation(const Evaluator& evaluator);

  const Evaluator& evaluator;
  std::vector<GroupWork> work;         // by place in `order`
  std::vector<double> fixed;           // by place: part of its time that does not shrink with its share of the batch
  std::vector<GroupId> order;          // model_order()
  std::vector<std::int32_t> place_of;  // by group
  struct Edge {
    std::int32_t from = 0;  // places
    std::int32_t to = 0;
    double bytes = 0;  // of the whole batch, forward; gradients come back as many
  };
  std::vector<Edge> edges;
  std::vector<std::vector<std::int32_t>> edges_of;  // by place: into `edges`

  std::vector<double> iteration;                 // by device: seconds of a whole iteration there
  std::vector<double> speed;                     // by device: share of all devices' speed
  std::vector<double> room;                      // by device: usable bytes
  double ideal = 1;                              // T, seconds
  std::vector<std::int32_t> token_of;            // by device
  std::vector<std::vector<DeviceIndex>> tokens;  // their devices
  std::vector<double> rate;  // [token, token]: bytes per second of the route; within one, between two of its devices

  // Row by row.
  std::vector<float> group_features;  // [places, kGroupFeatures]
  std::vector<float> edge_features;   // [places, places, kEdgeFeatures]
  std::vector<float> token_features;  // [tokens, kTokenFeatures]
  std::vector<float> link_features;   // [tokens, tokens, kLinkFeatures]
  std::vector<float> cross_features;  // [places, tokens, kCrossFeatures]

  std::size_t places() const { return order.size(); }
  std::vector<std::int32_t> all_places() const;  // ascending

 private:
  void find_tokens();
  void find_edges();
  void describe_groups();
  void describe_tokens();
  void describe_costs();
};

// A ratio as a feature: 0 at 1, 1 at e^2, and no less than about -4, so that 0 has a place.
float log_ratio(double ratio);

}  // namespace motley
