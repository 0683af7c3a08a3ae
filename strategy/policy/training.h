#pragma once

// Trains a policy (docs/policy.md): `motley train-policy`.
//
// A step: actors make new cases (strategy/policy/training_case.h) and search each for a few hundred evaluations, every
// other one with the present policy as the search's prior. Then lessons are drawn from all cases that are kept. In each
// the network (1) imitates the best strategy that is known: it decides all places, or a part of them given the rest,
// and the cross entropy of the best strategy's decisions is its loss; (2) draws strategies of its own, which are
// simulated, in every fourth lesson: REINFORCE (Williams, Machine Learning 8, 1992) on the logarithm of the best known
// time over the time of each, with the samples' mean as the baseline, and a bonus for entropy. What beats the best
// known takes its place. The gradients of a step's lessons are summed in their order and taken by Adam (Kingma, Ba,
// 2015).
//
// A step depends on the seed and the steps before it alone, not on the number of threads; it can be interrupted between
// two steps and goes on from its checkpoint as if it had not been.

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>

#include "strategy/policy/training_case.h"

namespace motley {

struct PolicyMetrics {  // means since the last ones
  std::int64_t step = 0;
  Seconds elapsed;         // of training, all runs together
  std::int64_t cases = 0;  // kept
  double imitation = 0;    // cross entropy of the best known strategy's choice, per place
  double agreement = 0;    // how often the likeliest choice is the best known one's
  double entropy = 0;      // of a choice
  double sampled = 0;      // time of a drawn strategy over the best known, geometric mean; infeasible ones count 20
  double improved = 0;     // share of those lessons in which a drawn strategy beat the best known
  // Of cases that are never learned from: the best of eight proposals over what a search found without it, geometric
  // mean; 0: not looked at this time.
  double held_out = 0;
};

struct PolicyTraining {
  CaseSource source;
  std::filesystem::path folder;   // checkpoint.safetensors, weights.safetensors, metrics.csv
  std::filesystem::path weights;  // to begin with, where there is no checkpoint; empty: chance
  std::uint64_t seed = 1;
  std::int64_t steps = 2000;                              // in all
  Seconds time{std::numeric_limits<double>::infinity()};  // after which no new step begins
  std::string device = "cpu";                             // as LibTorch names it
  int threads = 0;                                        // actors, and lessons at a time on the CPU; 0: one per core
  std::int64_t kept = 2000;                               // cases
  std::int64_t fresh = 1;                                 // new cases per step
  std::int64_t lessons = 16;                              // per step
  std::int64_t samples = 4;                               // strategies drawn per lesson
  std::int64_t evaluations = 250;                         // of the search for each new case
  std::int64_t held_out = 24;                             // cases
  double learning_rate = 3e-4;
  double reinforcement = 0.3;  // weight of (2) against (1)
  double entropy = 0.003;      // weight of the bonus
  std::stop_token stop;
  std::function<void(const PolicyMetrics&)> progress;  // every ten steps
};

// Throws Error(kInvalidInput) when the checkpoint or the weights are not of this network, or there is no such device;
// Error(kUnavailable) when the folder cannot be written.
void train_policy(const PolicyTraining& training);

}  // namespace motley
