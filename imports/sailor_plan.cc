#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/index.h"
#include "imports/sailor.h"
#include "imports/sailor_cluster.h"

namespace motley {
namespace {

std::int64_t positive(const JsonPlace& place) {
  if (place.integer() == 0) place.fail("should be 1 or more");
  return place.integer();
}

SailorReplica read_replica(const JsonPlace& place) {
  const std::vector<JsonPlace> parts = place[0].elements();
  if (parts.size() != 1) {
    throw Error(ErrorKind::kUnsupported,
                place.where() + ": is a tensor-parallel group over several kinds of GPUs, which no profile is of");
  }
  return {parts[0][0].text(), positive(parts[0][1]), parts[0][2].text(), positive(place[1])};
}

// The machines of a plan: replicas in order of stages, as many to a node as its GPUs hold.
Cluster cluster_of(const SailorProfiles& profiles, const SailorPlan& plan) {
  SailorClusterBuilder builder(profiles);
  const SailorReplica* before = nullptr;
  for (const SailorStage& stage : plan.stages) {
    for (const SailorReplica& replica : stage.replicas) {
      if (replica.zone != plan.stages[0].replicas[0].zone) {
        throw Error(ErrorKind::kUnsupported, plan.source + ": its GPUs are in several zones (" +
                                                 plan.stages[0].replicas[0].zone + ", " + replica.zone + ")");
      }
      if (replica.tensor_parallel > replica.gpus_per_node) {
        throw Error(ErrorKind::kUnsupported, plan.source + ": a tensor-parallel group of " +
                                                 std::to_string(replica.tensor_parallel) + " on nodes of " +
                                                 std::to_string(replica.gpus_per_node) + " GPUs");
      }
      const bool fits = before != nullptr && before->gpu == replica.gpu &&
                        builder.used() + replica.tensor_parallel <= replica.gpus_per_node;
      if (!fits) builder.add_node();
      builder.add_device(replica.gpu, replica.tensor_parallel);
      before = &replica;
    }
  }
  return builder.finish(plan.source);
}

// By layer: the stage it is on.
std::vector<std::int32_t> stage_of_layers(const SailorProfiles& profiles, const SailorPlan& plan) {
  std::vector<std::int32_t> stage_of(at(profiles.layers()), kNone);
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    for (std::int32_t layer : plan.stages[stage].layers) {
      if (layer >= profiles.layers() || stage_of[at(layer)] != kNone) {
        throw Error(ErrorKind::kInvalidInput, plan.source + ": layer " + std::to_string(layer) + " stands twice, or " +
                                                  profiles.model() + " with its " + std::to_string(profiles.layers()) +
                                                  " layers has none");
      }
      stage_of[at(layer)] = static_cast<std::int32_t>(stage);
    }
  }
  const auto left = std::ranges::find(stage_of, kNone);
  if (left != stage_of.end()) {
    throw Error(ErrorKind::kUnsupported, plan.source + ": leaves out layer " + std::to_string(left - stage_of.begin()) +
                                             " of " + profiles.model());
  }
  return stage_of;
}

// Where the replicas of a stage have unlike degrees, the least: it holds the most.
std::int64_t degree_of(const SailorStage& stage) {
  return std::ranges::min_element(stage.replicas, {}, &SailorReplica::tensor_parallel)->tensor_parallel;
}

bool has_attention(const SailorProfiles& profiles, const SailorStage& stage) {
  const auto& model = profiles.transformer();
  return model &&
         std::ranges::any_of(stage.layers, [&](std::int32_t layer) { return layer >= 1 && layer <= model->blocks; });
}

}  // namespace

SailorPlan read_sailor_plan(const std::filesystem::path& path) {
  const JsonPlace file = JsonPlace::of_file(path);
  SailorPlan plan;
  plan.source = path.string();
  const std::vector<JsonPlace> pipelines = file["pipeline_list"].elements();
  if (pipelines.size() != 1) {
    throw Error(ErrorKind::kUnsupported, path.string() + ": has " + std::to_string(pipelines.size()) +
                                             " pipelines; plans of one alone are read");
  }
  const std::vector<JsonPlace> layers = pipelines[0]["layers_per_stage"].elements();
  const std::vector<JsonPlace> replicas = pipelines[0]["tmp_per_stage"].elements();
  if (layers.empty() || layers.size() != replicas.size()) {
    pipelines[0].fail("layers_per_stage and tmp_per_stage should have one entry per stage each");
  }
  for (std::size_t s = 0; s < layers.size(); ++s) {
    SailorStage stage;
    for (const JsonPlace& layer : layers[s].elements()) {
      stage.layers.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(layer.integer(), 1'000'000)));
    }
    for (const JsonPlace& replica : replicas[s].elements()) stage.replicas.push_back(read_replica(replica));
    if (stage.layers.empty()) layers[s].fail("a stage should have layers");
    if (stage.replicas.empty()) replicas[s].fail("a stage should have GPUs");
    plan.stages.push_back(std::move(stage));
  }
  plan.micro_batch = positive(file["mbs"]);
  plan.batch = positive(file["gbs"]);
  if (file.has("real")) plan.seconds = Seconds(file["real"].number());
  if (file.has("max_mem")) plan.memory = Bytes(file["max_mem"].integer());
  return plan;
}

ImportedJob job_of(const SailorProfiles& profiles, const SailorPlan& plan) {
  const std::vector<std::int32_t> stage_of = stage_of_layers(profiles, plan);
  ImportedJob job;
  std::vector<std::int64_t> degrees;  // by layer
  degrees.reserve(stage_of.size());
  for (std::int32_t stage : stage_of) degrees.push_back(degree_of(plan.stages[at(stage)]));
  job.graph = sailor_graph(profiles, degrees);

  job.cluster = cluster_of(profiles, plan);
  std::vector<ImportedDevice> kinds;
  std::vector<std::int32_t> kind_of;
  std::map<std::tuple<std::string, std::int64_t, bool>, std::int32_t> known;
  for (const SailorStage& stage : plan.stages) {
    const bool attention = has_attention(profiles, stage);
    for (const SailorReplica& replica : stage.replicas) {
      const auto [kind, fresh] = known.try_emplace({replica.gpu, replica.tensor_parallel, attention}, kinds.size());
      if (fresh) kinds.push_back(sailor_device(profiles, replica.gpu, replica.tensor_parallel, attention));
      kind_of.push_back(kind->second);
    }
  }
  job.costs = std::make_unique<ProfileCosts>(job.graph, std::move(kinds), std::move(kind_of));

  std::vector<std::vector<Share>> shares;  // by stage
  DeviceIndex device = 0;
  for (const SailorStage& stage : plan.stages) {
    shares.emplace_back();
    for (std::size_t replica = 0; replica < stage.replicas.size(); ++replica) shares.back().push_back({device++, 1.0});
  }
  for (std::int32_t stage : stage_of) job.strategy.groups.push_back({.shares = shares[at(stage)], .stage = stage});
  job.strategy.name = plan.source;
  job.strategy.bucket = megatron_deepspeed::kBucket;
  job.strategy.schedule = megatron_deepspeed::kSchedule;
  const auto replicas = static_cast<std::int64_t>(plan.stages[0].replicas.size());
  const std::int64_t together = plan.micro_batch * replicas;
  job.strategy.micro_batches = (plan.batch + together - 1) / together;
  job.batch = plan.batch;
  return job;
}

}  // namespace motley
