#pragma once

// Collectives as the algorithms that NCCL and Gloo run. Each exists as its steps, which the simulator runs as flows
// over the cluster's channels, and as a closed form for a uniform network, with which its steps agree.
//
// n members, S bytes: the whole vector that each holds before (all-reduce, reduce, reduce-scatter, all-to-all,
// broadcast's root) or after (all-gather). `a` is the fixed time of a step (latency and overhead), B what a member
// sends and at the same time receives per second.
//
//   ring                all-reduce      2(n-1) a + 2(n-1)/n S/B
//     (every edge once) reduce-scatter, all-gather   (n-1) a + (n-1)/n S/B
//                       broadcast, reduce            (n-1) a + S/B, as a pipelined chain
//     Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms, JPDC 2009, section 4. NCCL; Gloo's all-reduce.
//   double binary tree  all-reduce      2 ceil(log2 n) a + 2 S/B (n = 2: S/B, n = 3: 3/2 S/B)
//     Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009. NCCL, which
//     chains the members of one node and makes its trees of the nodes' first members.
//   binomial tree       broadcast, reduce            ceil(log2 n) (a + S/B). Gloo's broadcast.
//   halving-doubling    all-reduce, n = 2^k          2 k a + 2(n-1)/n S/B
//                       reduce-scatter, all-gather   k a + (n-1)/n S/B
//     Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005, sections 4.3 to
//     4.5. In an all-reduce, members beyond a power of two hand their vector to another first and get the result last:
//     2 (a + S/B) more. The others need a power of two.
//   hierarchical        all-reduce: reduce-scatter by rings in each node, all-reduce by rings across the nodes' members
//     of the same place, all-gather in each node; nodes of unlike size: reduce to the first member of each, all-reduce
//     of these, broadcast. With q nodes of m = n/q members:
//                       (2(m-1) + 2(q-1)) a + (2(m-1)/m + 2(q-1)/q / m) S/B
//   pairwise            all-to-all                   (n-1) (a + S/n/B), member i to i + s in step s. Gloo; NCCL's
//     grouped sends.
//
// A ring or tree moves large messages as a pipeline: its fixed times add up first, then all its edges carry what they
// have to, all at once. That is one phase of O(n) flows.

#include <functional>
#include <span>
#include <vector>

#include "proto/cluster.h"

namespace motley {

enum class CollectiveKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kAllToAll };
enum class CollectiveAlgorithm { kRing, kTree, kBinomialTree, kHalvingDoubling, kHierarchical, kPairwise };

struct CollectiveHop {
  DeviceIndex from = 0;
  DeviceIndex to = 0;
  double bytes = 0;
  double messages = 1;  // in which they travel
};
struct CollectiveStep {  // one after the other: first the fixed time passes, then all hops run at once
  Seconds fixed;
  std::vector<CollectiveHop> hops;
};

struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::span<const DeviceIndex>
      members;       // in the order of the ring; those of one node stand together. The root is first
  double bytes = 0;  // S
};

// The fixed time of one message of that size: latency, overhead, and what it loses by being small.
using StepTime = std::function<Seconds(DeviceIndex from, DeviceIndex to, double bytes)>;

bool runs(CollectiveAlgorithm algorithm, CollectiveKind kind);  // whether there is such a thing
// Empty for fewer than two members. Throws Error(kInternal) where there is no such thing. Thread-safe, as all of these.
std::vector<CollectiveStep> collective_steps(const CollectiveRequest& request, CollectiveAlgorithm algorithm,
                                             const Cluster& cluster, const StepTime& step_time);
// Of an all-reduce as the library of these devices runs it: its ring, by the algorithm that it chooses.
std::vector<CollectiveStep> all_reduce_steps(const std::vector<DeviceIndex>& members, double bytes,
                                             const Cluster& cluster, const StepTime& step_time);
// On a network where every step takes `step` and every member sends and receives `rate`. `per_node`: members of each
// node, of which only the hierarchical algorithm and the tree take note.
Seconds collective_closed_form(CollectiveKind kind, CollectiveAlgorithm algorithm, std::size_t members, double bytes,
                               Seconds step, BytesPerSecond rate, std::size_t per_node = 1);

// What the workers run: Gloo for CPUs, NCCL for accelerators.
//  - Gloo (gloo/allreduce.cc, broadcast.cc, alltoall.cc; runtime/gloo_communicator.cc asks for the ring): rings at
//  every
//    size, of which each member sends to the one before it; broadcasts by a binomial tree; all-to-all pairwise.
//  - NCCL (src/graph/tuning.cc at commit b647562, ncclTopoTuneModel and ncclTopoGetAlgoTime): an all-reduce by the ring
//  or the double
//    binary tree, whichever its own model of latency and bandwidth finds faster in the better of the protocols LL and
//    Simple; the rest by rings. LL128, NVLink SHARP and CollNet are not modelled.
CollectiveAlgorithm choose_collective(const CollectiveRequest& request, const Cluster& cluster);
// The members in the order in which the library rings them.
std::vector<DeviceIndex> ring_order(const std::vector<DeviceIndex>& members, const Cluster& cluster);

}  // namespace motley
