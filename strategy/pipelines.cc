#include "strategy/pipelines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "strategy/baselines.h"
#include "strategy/stage_search.h"
#include "strategy/work.h"

namespace motley {

namespace {

constexpr std::size_t kStarts = 8;  // of each of the next
constexpr double kLikelyMicroBatches = 48;
constexpr std::size_t kMostDevices = 256;             // beyond, a pipeline takes too long to simulate for a search
constexpr std::size_t kMostInstructions = 1'000'000;  // likewise, but for kFewMicroBatches
constexpr std::int64_t kFewMicroBatches = 64;
constexpr double kNearBest = 1.1;  // starts are estimated to take so much of the best one's time at most

Strategy strategy_of(const PlannedPipeline& pipeline, const Evaluator& evaluator, const Chain& chain,
                     const std::vector<AlikeDevices>& kinds) {
  Strategy strategy = uniform_strategy("search", evaluator.graph(), {});
  strategy.micro_batches = pipeline.micro_batches;
  std::vector<std::size_t> taken(kinds.size(), 0);
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const PlannedStage& stage = pipeline.stages[s];
    GroupDecision decision;
    decision.stage = static_cast<std::int32_t>(s);
    decision.recompute = stage.recompute;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      for (std::size_t i = 0; i < stage.width[kind]; ++i) {
        decision.shares.push_back({kinds[kind].devices[taken[kind]++], static_cast<double>(stage.samples[kind])});
      }
    }
    std::ranges::sort(decision.shares, {}, &Share::device);
    for (std::size_t place = stage.begin; place < stage.end; ++place) strategy.groups[chain.group(place)] = decision;
  }
  return strategy;
}

// Of a device's memory, for what the sums of this search count. The rest, if any, is for buffers of messages and what
// the allocator loses; the simulation tells how much that is.
std::vector<double> parts_to_fill(const Evaluator& evaluator) {
  for (DeviceIndex device = 0; device < static_cast<DeviceIndex>(evaluator.cluster().devices.size()); ++device) {
    if (evaluator.costs().allocator(device) != AllocatorKind::kNone) return {1, 0.8};
  }
  return {1};
}

// Of the model's ops on all devices that a stage has them on, for all micro-batches.
std::size_t instructions(const PlannedPipeline& pipeline, const Graph& graph, const Chain& chain) {
  std::vector<std::size_t> ops(graph.groups.size(), 0);
  for (const Op& op : graph.ops) {
    if (op.group != kNone) ++ops[static_cast<std::size_t>(op.group)];
  }
  std::size_t sum = 0;
  for (const PlannedStage& stage : pipeline.stages) {
    const std::size_t width = std::accumulate(stage.width.begin(), stage.width.end(), std::size_t{0});
    for (std::size_t place = stage.begin; place < stage.end; ++place) sum += width * ops[chain.group(place)];
  }
  return sum * static_cast<std::size_t>(pipeline.micro_batches);
}

}  // namespace

Strategy even_pipeline(const std::string& schedule, const Graph& graph, const Cluster& cluster, const CostModel& costs,
                       std::int64_t batch) {
  constexpr std::size_t kStages = 8;
  const Chain chain(graph);
  const std::vector<GroupWork> work = group_work(graph, cluster, costs, batch);
  const std::size_t chunks = schedule == "interleaved-1f1b" || schedule == "zb-v" ? 2 : 1;
  const std::size_t devices = cluster.devices.size();
  std::size_t ranks = std::min({kStages, devices, std::max<std::size_t>(1, graph.groups.size() / chunks)});
  while (devices % ranks != 0) --ranks;  // as many devices to each
  const std::size_t width = devices / ranks, stages = ranks * chunks;
  double total = 0;
  for (const GroupWork& group : work) total += group.seconds[0];
  Strategy strategy = uniform_strategy("pp:" + schedule, graph, {});
  strategy.schedule = schedule;
  strategy.micro_batches =
      std::clamp<std::int64_t>(batch / static_cast<std::int64_t>(width), 1, static_cast<std::int64_t>(4 * ranks));
  double done = 0;
  std::size_t stage = 0, in_stage = 0;
  for (std::size_t place = 0; place < chain.size(); ++place) {
    const double seconds = work[chain.group(place)].seconds[0];
    // The next stage begins nearest to its part of the work, and in time for every later one to have a group.
    const double boundary = total * static_cast<double>(stage + 1) / static_cast<double>(stages);
    const bool must = chain.size() - place <= stages - stage - 1;
    if (stage + 1 < stages && in_stage > 0 && chain.may_cut(place) && (must || done + seconds / 2 > boundary)) {
      ++stage;
      in_stage = 0;
    }
    done += seconds;
    ++in_stage;
    strategy.groups[chain.group(place)].stage = static_cast<std::int32_t>(stage);
  }
  for (GroupDecision& decision : strategy.groups) {
    const auto of = static_cast<std::size_t>(decision.stage);
    const std::size_t rank = schedule == "zb-v" ? std::min(of, stages - 1 - of) : of % ranks;
    for (std::size_t i = 0; i < width; ++i) {
      decision.shares.push_back({static_cast<DeviceIndex>(rank * width + i), 1.0});
    }
  }
  return strategy;
}

std::vector<Strategy> pipeline_starts(const Evaluator& evaluator) {
  const std::size_t devices = evaluator.cluster().devices.size();
  if (devices < 2 || devices > kMostDevices) return {};
  const Chain chain(evaluator.graph());
  StageSearch search(evaluator, chain);
  const std::size_t ops = std::max<std::size_t>(1, evaluator.graph().ops.size());
  std::vector<std::int64_t> numbers =
      search.micro_batches(std::max(kFewMicroBatches, static_cast<std::int64_t>(kMostInstructions / ops)));
  // The likely ones first: what is known to be good cuts short the search for the others.
  std::ranges::stable_sort(numbers, {}, [](std::int64_t number) {
    return std::abs(std::log2(static_cast<double>(number) / kLikelyMicroBatches));
  });
  std::vector<Strategy> starts;
  for (const double filled : parts_to_fill(evaluator)) {
    std::vector<PlannedPipeline> pipelines;
    double best = std::numeric_limits<double>::infinity();
    for (const std::int64_t number : numbers) {
      for (PlannedPipeline& pipeline : search.run(number, filled, kNearBest * best)) {
        if (number > kFewMicroBatches && instructions(pipeline, evaluator.graph(), chain) > kMostInstructions) {
          continue;
        }
        best = std::min(best, pipeline.seconds);
        pipelines.push_back(std::move(pipeline));
      }
    }
    std::ranges::stable_sort(pipelines, {}, &PlannedPipeline::seconds);
    if (pipelines.size() > kStarts) pipelines.resize(kStarts);
    // The best ones of each come first, for a search that has little time.
    std::vector<Strategy> mixed;
    for (std::size_t i = 0; i < std::max(pipelines.size(), starts.size()); ++i) {
      if (i < starts.size()) mixed.push_back(starts[i]);
      if (i < pipelines.size()) mixed.push_back(strategy_of(pipelines[i], evaluator, chain, search.kinds()));
    }
    starts = std::move(mixed);
  }
  return starts;
}

}  // namespace motley
