#pragma once

// The best strategy of a finite space, by branch and bound: the ruler for the search on small cases.
//
// The space: for each op group any set of devices, with even shares or shares by the devices' speed on the whole model,
// and either gradient method; one micro-batch, no stages, no recomputation, buckets of the default size. A model of 10
// groups has up to 48^10 such strategies on 4 devices.
//
// Groups are decided on in the model's order, depth first. What is decided bounds the time from below, whatever comes:
//  - a device computes one thing at a time: its decided groups' ops, at the samples that it gets;
//  - all devices together: their loads, weighted by their speeds, and of each open group the least weighted work;
//  - what enters or leaves a device takes its links: the samples that it fetches of decided groups, and the gradients
//  of
//    the groups that it shares;
//  - the longest path of the graph, with the least that any replica of a decided op takes, the way of a tensor from one
//    device to another, and, before the update of what is shared, the exchange of its gradient.
// Branches that cannot be better than the best known are cut. Devices that can be told apart by nothing that is decided
// so far are taken in their order.

#include <cstdint>
#include <stop_token>

#include "strategy/evaluate.h"
#include "strategy/pins.h"

namespace motley {

inline constexpr std::size_t kExactGroups = 10, kExactDevices = 4;

struct ExactOptions {
  Seconds time{60};            // after which it ends without a proof
  std::stop_token stop;        // likewise
  const Pins* pins = nullptr;  // what does not obey them is outside the space
};

struct ExactResult {
  Evaluation best;      // of the space; its strategy is named "exact"
  bool proved = false;  // that no strategy of the space is better
  std::int64_t evaluations = 0;
  Seconds elapsed;
};

// Throws Error(kInvalidInput) when there are more groups or devices.
void check_exact(const Graph& graph, const Cluster& cluster);

// Throws as check_exact.
ExactResult exact_optimum(const Evaluator& evaluator, const ExactOptions& options);

}  // namespace motley
