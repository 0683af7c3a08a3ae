#include "simulator/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/error.h"

namespace motley {
namespace {

using Members = std::vector<DeviceIndex>;

int ceil_log2(std::size_t n) { return n < 2 ? 0 : std::bit_width(n - 1); }

class Steps {
 public:
  Steps(const Cluster& cluster, const StepTime& step_time) : cluster_(cluster), step_time_(step_time) {}

  std::vector<CollectiveStep> phases;

  // A pipelined ring: each edge carries `bytes`, after `rounds` times the slowest edge's fixed time.
  static void ring(CollectiveStep& phase, std::span<const DeviceIndex> members, double bytes) {
    for (std::size_t m = 0; m < members.size() && members.size() > 1; ++m) {
      phase.hops.push_back({members[m], members[(m + 1) % members.size()], bytes});
    }
  }
  // Down from the first (broadcast) or up to it (reduce).
  static void chain(CollectiveStep& phase, std::span<const DeviceIndex> members, double bytes, bool down) {
    for (std::size_t m = 1; m < members.size(); ++m) {
      if (down) phase.hops.push_back({members[m - 1], members[m], bytes});
      if (!down) phase.hops.push_back({members[m], members[m - 1], bytes});
    }
  }
  // Ends a phase whose slowest hop's fixed time passes `rounds` times.
  void add(CollectiveStep phase, std::size_t rounds) {
    phase.fixed = static_cast<double>(rounds) * slowest(phase, rounds);
    for (CollectiveHop& hop : phase.hops) hop.messages = static_cast<double>(rounds);
    phases.push_back(std::move(phase));
  }
  // Each hop moves its bytes in as many messages.
  Seconds slowest(const CollectiveStep& phase, std::size_t messages) const {
    Seconds slowest;
    for (const CollectiveHop& hop : phase.hops) {
      slowest = std::max(slowest, step_time_(hop.from, hop.to, hop.bytes / static_cast<double>(messages)));
    }
    return slowest;
  }

  // Both trees at once, each with half the bytes; reduced up and broadcast down, as one pipeline.
  void double_tree(const std::vector<Members>& nodes, double bytes) {
    CollectiveStep trees;
    CollectiveStep chains;
    std::size_t longest = 1;
    for (const Members& node : nodes) {
      chain(chains, node, bytes, true);
      chain(chains, node, bytes, false);
      longest = std::max(longest, node.size());
    }
    const std::size_t n = nodes.size();
    for (const bool second : {false, true}) {
      // The second tree's leaves are the first one's inner nodes: mirrored where n is even, moved by one where odd.
      const auto head = [&](std::size_t place) {
        if (second) place = n % 2 == 0 ? n - 1 - place : (place + 1) % n;
        return nodes[place].front();
      };
      for (std::size_t place = 1; place < n; ++place) {
        const std::size_t bit = place & (~place + 1);
        const std::size_t above = (place ^ bit) | (bit << 1);
        const std::size_t parent = above < n ? above : place ^ bit;
        trees.hops.push_back({head(place), head(parent), bytes / 2});
        trees.hops.push_back({head(parent), head(place), bytes / 2});
      }
    }
    const Seconds fixed =
        2.0 * ceil_log2(n) * slowest(trees, 1) + 2.0 * static_cast<double>(longest - 1) * slowest(chains, 1);
    trees.hops.insert(trees.hops.end(), chains.hops.begin(), chains.hops.end());
    phases.push_back({fixed, std::move(trees.hops)});
  }

  void binomial(std::span<const DeviceIndex> members, double bytes, bool down) {
    const int rounds = ceil_log2(members.size());
    for (int r = 0; r < rounds; ++r) {
      const std::size_t distance = std::size_t{1} << (down ? r : rounds - 1 - r);
      CollectiveStep phase;
      for (std::size_t m = 0; m < distance && m + distance < members.size(); ++m) {
        const DeviceIndex near = members[m];
        const DeviceIndex far = members[m + distance];
        phase.hops.push_back({down ? near : far, down ? far : near, bytes});
      }
      add(std::move(phase), 1);
    }
  }

  void halving_doubling(std::span<const DeviceIndex> members, double bytes, bool halve, bool twice) {
    const std::size_t even = std::bit_floor(members.size());
    const std::size_t more = members.size() - even;
    MOTLEY_CHECK(more == 0 || twice, "halving or doubling alone among members that are no power of two");
    const auto fold = [&](bool in) {
      CollectiveStep phase;
      for (std::size_t m = 0; m < more; ++m) {
        const DeviceIndex extra = members[even + m];
        phase.hops.push_back({in ? extra : members[m], in ? members[m] : extra, bytes});
      }
      if (more > 0) add(std::move(phase), 1);
    };
    const auto exchange = [&](std::size_t distance) {
      CollectiveStep phase;
      const double part = bytes * static_cast<double>(distance) / static_cast<double>(even);
      for (std::size_t m = 0; m < even; ++m) phase.hops.push_back({members[m], members[m ^ distance], part});
      add(std::move(phase), 1);
    };
    fold(true);
    if (halve || twice) {
      for (std::size_t distance = even / 2; distance > 0; distance /= 2) exchange(distance);
    }
    if (!halve || twice) {
      for (std::size_t distance = 1; distance < even; distance *= 2) exchange(distance);
    }
    fold(false);
  }

  void hierarchical(const std::vector<Members>& nodes, double bytes) {
    const auto size = [](const Members& node) { return node.size(); };
    const std::size_t longest = std::ranges::max(nodes, {}, size).size();
    const bool alike = std::ranges::min(nodes, {}, size).size() == longest;
    const auto within = static_cast<double>(longest);
    const auto across = static_cast<double>(nodes.size());
    const auto inside = [&](bool down) {
      CollectiveStep phase;
      for (const Members& node : nodes) {
        if (alike) ring(phase, node, (within - 1) / within * bytes);
        if (!alike) chain(phase, node, bytes, down);
      }
      if (!phase.hops.empty()) add(std::move(phase), longest - 1);
    };
    inside(false);
    CollectiveStep between;
    for (std::size_t place = 0; place < (alike ? longest : 1); ++place) {
      Members row;
      for (const Members& node : nodes) row.push_back(node[place]);
      ring(between, row, 2 * (across - 1) / across * bytes / (alike ? within : 1));
    }
    if (nodes.size() > 1) add(std::move(between), 2 * (nodes.size() - 1));
    inside(true);
  }

  std::vector<Members> by_node(std::span<const DeviceIndex> members) const {
    std::vector<Members> nodes;
    for (const DeviceIndex member : members) {
      const bool same = !nodes.empty() && cluster_.devices[nodes.back().back()].node == cluster_.devices[member].node;
      if (!same) nodes.emplace_back();
      nodes.back().push_back(member);
    }
    return nodes;
  }

 private:
  const Cluster& cluster_;
  const StepTime& step_time_;
};

}  // namespace

bool runs(CollectiveAlgorithm algorithm, CollectiveKind kind) {
  const bool rooted = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return kind != CollectiveKind::kAllToAll;
    case CollectiveAlgorithm::kTree:
    case CollectiveAlgorithm::kHierarchical:
      return kind == CollectiveKind::kAllReduce;
    case CollectiveAlgorithm::kBinomialTree:
      return rooted;
    case CollectiveAlgorithm::kHalvingDoubling:
      return !rooted && kind != CollectiveKind::kAllToAll;
    case CollectiveAlgorithm::kPairwise:
      break;
  }
  return kind == CollectiveKind::kAllToAll;
}

std::vector<CollectiveStep> collective_steps(const CollectiveRequest& request, CollectiveAlgorithm algorithm,
                                             const Cluster& cluster, const StepTime& step_time) {
  MOTLEY_CHECK(runs(algorithm, request.kind), "a collective by an algorithm that does not do it");
  Steps steps(cluster, step_time);
  const std::span<const DeviceIndex> members = request.members;
  const std::size_t n = members.size();
  if (n < 2) return {};
  const bool all_reduce = request.kind == CollectiveKind::kAllReduce;
  const bool down = request.kind == CollectiveKind::kBroadcast;
  const double part = static_cast<double>(n - 1) / static_cast<double>(n) * request.bytes;
  switch (algorithm) {
    case CollectiveAlgorithm::kRing: {
      CollectiveStep phase;
      if (down || request.kind == CollectiveKind::kReduce) {
        Steps::chain(phase, members, request.bytes, down);
      } else {
        Steps::ring(phase, members, all_reduce ? 2 * part : part);
      }
      steps.add(std::move(phase), all_reduce ? 2 * (n - 1) : n - 1);
      break;
    }
    case CollectiveAlgorithm::kTree:
      steps.double_tree(steps.by_node(members), request.bytes);
      break;
    case CollectiveAlgorithm::kBinomialTree:
      steps.binomial(members, request.bytes, down);
      break;
    case CollectiveAlgorithm::kHalvingDoubling:
      steps.halving_doubling(members, request.bytes, request.kind == CollectiveKind::kReduceScatter, all_reduce);
      break;
    case CollectiveAlgorithm::kHierarchical:
      steps.hierarchical(steps.by_node(members), request.bytes);
      break;
    case CollectiveAlgorithm::kPairwise:
      for (std::size_t s = 1; s < n; ++s) {
        CollectiveStep phase;
        for (std::size_t m = 0; m < n; ++m) {
          phase.hops.push_back({members[m], members[(m + s) % n], request.bytes / static_cast<double>(n)});
        }
        steps.add(std::move(phase), 1);
      }
      break;
  }
  return std::move(steps.phases);
}

Seconds collective_closed_form(CollectiveKind kind, CollectiveAlgorithm algorithm, std::size_t members, double bytes,
                               Seconds step, BytesPerSecond rate, std::size_t per_node) {
  if (members < 2) return {};
  const auto n = static_cast<double>(members);
  const Seconds whole(bytes / rate.value);
  const bool all_reduce = kind == CollectiveKind::kAllReduce;
  const bool rooted = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
  const double ways = all_reduce ? 2 : 1;
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return ways * (n - 1) * step + (rooted ? 1 : ways * (n - 1) / n) * whole;
    case CollectiveAlgorithm::kTree: {
      MOTLEY_CHECK(per_node == 1, "the tree's closed form is that of one member a node");
      return 2.0 * ceil_log2(members) * step + std::min(2.0, n / 2) * whole;
    }
    case CollectiveAlgorithm::kBinomialTree:
      return ceil_log2(members) * (step + whole);
    case CollectiveAlgorithm::kHalvingDoubling: {
      const auto even = static_cast<double>(std::bit_floor(members));
      const double folds = members == std::bit_floor(members) ? 0 : 2;
      return ways * std::log2(even) * step + ways * (even - 1) / even * whole + folds * (step + whole);
    }
    case CollectiveAlgorithm::kHierarchical: {
      const auto m = static_cast<double>(per_node);
      const double q = n / m;
      return (2 * (m - 1) + 2 * (q - 1)) * step + (2 * (m - 1) / m + 2 * (q - 1) / q / m) * whole;
    }
    case CollectiveAlgorithm::kPairwise:
      break;
  }
  return (n - 1) * (step + whole / n);
}

}  // namespace motley
